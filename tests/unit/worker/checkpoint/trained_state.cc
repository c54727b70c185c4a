#include "tests/unit/worker/checkpoint/trained_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/base/random.h"

namespace gimbal::worker {
namespace {

const StageSpec kStage{.model = {.layers = 3,
                                 .hidden = 8,
                                 .heads = 2,
                                 .context = 4,
                                 .vocab = 11,
                                 .mlp_hidden = 16},
                       .first_block = 1,
                       .blocks = 2,
                       .last = true,
                       .microbatch = 1};
const ScheduleSpec kSchedule{ScheduleKind::kAsync1F1B, 4, 1};
}  // namespace

StageStateSpec TrainedSpec() {
  return {
      .stage = kStage,
      .schedule = kSchedule,
      .index = 1,
      .update = {.optimizer = {.kind = OptimizerKind::kBasisRotation},
                 .lr = {.kind = LrKind::kConstant, .peak = 0.01, .steps = 20}}};
}

std::unique_ptr<StageState> Trained(int64_t updates) {
  auto state = std::make_unique<StageState>(TrainedSpec());
  state->Initialize(1, 0.1);
  std::vector<float> grads(static_cast<size_t>(state->table().size()));
  for (int64_t t = 1; t <= updates; ++t) {
    for (const Param& p : state->table().params()) {
      for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        grads[static_cast<size_t>(i)] = static_cast<float>(base::RandomNormal(
            2, static_cast<uint64_t>(t), static_cast<uint64_t>(i)));
      }
    }
    state->Advance(t, 0, 1.0, t % 3 == 0, grads.data());
  }
  return state;
}

void ExpectSame(const StageState& a, const StageState& b) {
  ASSERT_EQ(a.stash().newest(), b.stash().newest());
  ASSERT_EQ(a.stash().oldest(), b.stash().oldest());
  for (int64_t v = a.stash().oldest(); v <= a.stash().newest(); ++v) {
    for (int64_t i = 0; i < a.table().size(); ++i) {
      ASSERT_EQ(a.stash().Get(v)[i], b.stash().Get(v)[i]) << "version " << v;
    }
  }
  const auto state_a = a.engine().State(), state_b = b.engine().State();
  ASSERT_EQ(state_a.size(), state_b.size());
  for (size_t k = 0; k < state_a.size(); ++k) {
    for (int64_t i = 0; i < state_a[k].rows * state_a[k].cols; ++i) {
      ASSERT_EQ(state_a[k].data[i], state_b[k].data[i]) << state_a[k].name;
    }
  }
}

}  // namespace gimbal::worker
