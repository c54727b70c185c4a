#include "worker/pipeline/stage_state.h"

#include <algorithm>

#include "worker/pipeline/cuda/update_units.h"

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

StageState::StageState(const StageStateSpec& spec,
                       const EngineFactory& make_engine)
    : spec_(spec),
      table_(ParameterTable::ForStage(spec.stage)),
      needs_(UpdateSpecOf(spec)),
      engine_(make_engine({spec.stage, UpdateSpecOf(spec), spec.wire})),
      stash_(engine_->AllocateWeights(
                 WeightStash::Size(table_.size(), VersionsOf(spec, needs_))),
             table_.size(), VersionsOf(spec, needs_)) {
  if (needs_.prediction) newest_ = engine_->AllocateWeights(table_.size());
  if (needs_.correction) backward_ = engine_->AllocateWeights(table_.size());
}

StageState::Bytes StageState::Count(const StageStateSpec& spec) {
  const ParameterTable table = ParameterTable::ForStage(spec.stage);
  const StageUpdateSpec update = UpdateSpecOf(spec);
  const StageUpdateNeeds needs(update);
  const auto rule = StageUpdate::Count(update, table);
  const int versions = VersionsOf(spec, needs);
  Bytes bytes{.optimizer = rule.held};
  if (update.optimizer.offload) {
    const UpdateUnits units(update.optimizer, table);
    bytes.offloaded = units.state_bytes;
    bytes.optimizer +=
        units.window_bytes[0] + units.window_bytes[1] - units.state_bytes;
  }
  bytes.weight_arenas =
      versions + int{needs.prediction} + int{needs.correction};
  // With bf16 every arena has a copy for products.
  const int64_t parameter_bytes = spec.stage.model.bf16 ? 4 + 2 : 4;
  bytes.weights = bytes.weight_arenas * table.size() * parameter_bytes;
  bytes.snapshot =
      (versions + int{needs.prediction}) * table.parameter_count() * 4 +
      rule.state;
  return bytes;
}

void StageState::Initialize(uint64_t seed, double init_std) {
  std::vector<float> arena(static_cast<size_t>(table_.size()));
  table_.Initialize(seed, init_std, arena.data());
  engine_->Write(arena.data(), table_.size(), stash_.SlotFor(0));
  // Without moments there is nothing to predict from.
  if (predicts()) engine_->Write(arena.data(), table_.size(), newest_);
  stash_.Publish(0);
  Restored();
}

void StageState::Restored() {
  if (needs_.correction) engine_->FillBackwardWeights(newest(), backward_);
}

const float* StageState::newest() const {
  return predicts() ? newest_ : stash_.Get(stash_.newest());
}

float* StageState::newest_to_fill(int64_t update) {
  return predicts() ? newest_ : stash_.SlotFor(update);
}

const float* StageState::ForwardWeights(int64_t version) const {
  return stash_.Get(version);
}

const float* StageState::BackwardWeights(int64_t version) const {
  if (needs_.correction) return backward_;
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
  if (needs_.compensation) {
    input.then = stash_.Get(stash_.newest() - staleness);
  }
  if (predicts()) input.predicted = stash_.SlotFor(update);
  engine_->Apply(input);
  stash_.Publish(update);
  Restored();
}

void StageState::LeaveOut(int64_t update) {
  const float* before = stash_.Get(stash_.newest());
  float* after = stash_.SlotFor(update);
  if (after != before) engine_->Copy(before, table_.size(), after);
  stash_.Publish(update);
}

bool StageState::weights_finite() const {
  return engine_->AllFinite(table_.size(), newest());
}

}  // namespace gimbal::worker
