#include "worker/pipeline/stage_state.h"

#include <algorithm>

#include "worker/compute/isa.h"
#include "worker/optim/kernels.h"

namespace gimbal::worker {
namespace {

StageUpdateSpec UpdateSpecOf(const StageStateSpec& spec) {
  StageUpdateSpec update = spec.update;
  update.delay = Delay(spec.schedule, spec.index);
  return update;
}

int VersionsOf(const StageStateSpec& spec, const StageUpdateNeeds& needs) {
  return std::max(WeightVersions(spec.schedule, spec.index),
                  needs.old_weights ? 2 : 1);
}

}  // namespace

StageState::StageState(const StageStateSpec& spec)
    : spec_(spec),
      table_(ParameterTable::ForStage(spec.stage)),
      update_(UpdateSpecOf(spec), table_),
      stash_(table_.size(), VersionsOf(spec, update_.needs())),
      newest_(update_.needs().prediction ? table_.size() : 0),
      backward_(update_.needs().correction ? table_.size() : 0) {}

StageState::Bytes StageState::Count(const StageStateSpec& spec) {
  const ParameterTable table = ParameterTable::ForStage(spec.stage);
  const StageUpdateSpec update = UpdateSpecOf(spec);
  const StageUpdateNeeds needs(update);
  const auto rule = StageUpdate::Count(update, table);
  const int versions = VersionsOf(spec, needs);
  Bytes bytes{.optimizer = rule.held};
  bytes.weight_arenas =
      versions + int{needs.prediction} + int{needs.correction};
  bytes.weights = bytes.weight_arenas * table.size() * 4;
  bytes.snapshot =
      (versions + int{needs.prediction}) * table.parameter_count() * 4 +
      rule.state;
  return bytes;
}

void StageState::Initialize(uint64_t seed, double init_std) {
  table_.Initialize(seed, init_std, stash_.SlotFor(0));
  // Without moments there is nothing to predict from.
  if (predicts()) table_.Initialize(seed, init_std, newest_.data());
  stash_.Publish(0);
  Restored();
}

void StageState::Restored() {
  if (update_.needs().correction) {
    update_.FillBackwardWeights(newest(), backward_.data());
  }
}

const float* StageState::newest() const {
  return predicts() ? newest_.data() : stash_.Get(stash_.newest());
}

float* StageState::newest_to_fill(int64_t update) {
  return predicts() ? newest_.data() : stash_.SlotFor(update);
}

const float* StageState::ForwardWeights(int64_t version) const {
  return stash_.Get(version);
}

const float* StageState::BackwardWeights(int64_t version) const {
  if (update_.needs().correction) return backward_.data();
  return stash_.Get(spec_.schedule.stash ? version : stash_.newest());
}

void StageState::Advance(int64_t update, int64_t staleness, double square_sum,
                         bool refresh, float* grads) {
  UpdateInput input{.update = update,
                    .square_sum = square_sum,
                    .refresh = refresh,
                    .old_weights = newest(),
                    .new_weights = newest_to_fill(update),
                    .grads = grads};
  if (update_.needs().compensation) {
    input.then = stash_.Get(stash_.newest() - staleness);
  }
  if (predicts()) input.predicted = stash_.SlotFor(update);
  update_.Apply(input);
  stash_.Publish(update);
  Restored();
}

void StageState::LeaveOut(int64_t update) {
  const float* before = stash_.Get(stash_.newest());
  float* after = stash_.SlotFor(update);
  if (after != before) std::copy_n(before, table_.size(), after);
  stash_.Publish(update);
}

bool StageState::weights_finite() const {
  return compute::Kernels<OptimKernels<float>>().all_finite(table_.size(),
                                                            newest());
}

}  // namespace gimbal::worker
