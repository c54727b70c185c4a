#include "worker/optim/stage_update.h"

#include <algorithm>
#include <cmath>

#include "worker/compute/isa.h"
#include "worker/optim/kernels.h"
#include "worker/optim/stage_rules.h"

namespace gimbal::worker {
namespace {

int64_t OwnArenas(const StageUpdateSpec& spec) {
  return int64_t{FeedsBack(spec)} + int64_t{StageUpdateNeeds(spec).correction} +
         int64_t{AveragesSquares(spec)};
}

const OptimKernels<float>& Kernels() {
  return compute::Kernels<OptimKernels<float>>();
}

}  // namespace

StageUpdateNeeds::StageUpdateNeeds(const StageUpdateSpec& spec) {
  if (spec.delay == 0) return;
  const MitigationSpec& m = spec.mitigation;
  prediction = m.weight_prediction;
  correction = m.discrepancy_decay > 0;
  old_weights = correction || m.error_feedback;
  compensation = m.compensation > 0;
}

StageUpdate::StageUpdate(const StageUpdateSpec& spec,
                         const ParameterTable& table)
    : spec_(spec),
      needs_(spec),
      table_(table),
      optimizer_(SpecOfStage(spec), table) {
  memory_ = compute::AlignedBuffer<float>(
      OwnArenas(spec) * compute::AlignedSize<float>(table.size()));
  compute::Carver<float> memory(memory_.data());
  if (FeedsBack(spec)) previous_ = memory.Take(table.size());
  if (needs_.correction) velocity_ = memory.Take(table.size());
  if (AveragesSquares(spec)) mean_square_ = memory.Take(table.size());
  if (needs_.prediction) lrs_ahead_.resize(static_cast<size_t>(spec.delay));
}

void StageUpdate::Apply(const UpdateInput& input) {
  const StageLr lr = LrOfStage(spec_.mitigation, spec_.delay, input.update,
                               LearningRate(spec_.lr, input.update));
  StepContext<float> context{.update = input.update,
                             .lr = lr.lr,
                             .matrix_lr_factor = lr.matrix_factor,
                             .refresh = input.refresh,
                             .scale = ClipScale(input.square_sum, spec_.clip)};
  const DelayCompensation<float> rotated{
      .lambda = spec_.mitigation.compensation,
      .adaptive = spec_.mitigation.compensation_adaptive,
      .then = input.then};
  if (needs_.compensation) {
    CompensateInPlace(input, context.scale);
    context.scale = 1;
    if (spec_.mitigation.compensation_rotated) context.compensation = &rotated;
  }
  optimizer_.Step(context, input.old_weights, input.grads, input.new_weights);
  const int64_t n = table_.size();
  if (previous_ != nullptr) {
    Kernels().error_feedback(n, input.old_weights, previous_,
                             input.new_weights);
  }
  if (needs_.correction) {
    const double decay = std::pow(spec_.mitigation.discrepancy_decay,
                                  1 / static_cast<double>(spec_.delay));
    Kernels().track_velocity(n, decay, input.old_weights, input.new_weights,
                             velocity_);
  }
  if (needs_.prediction) Predict(input, lr);
}

// Everything but what the optimizer does in its rotated spaces; there the
// gradient is only scaled.
void StageUpdate::CompensateInPlace(const UpdateInput& input, double scale) {
  const MitigationSpec& m = spec_.mitigation;
  for (const Param& p : table_.params()) {
    float* grads = input.grads + p.offset;
    const float* now = input.old_weights + p.offset;
    const float* then = input.then + p.offset;
    if (CompensatesRotated(spec_, p)) {
      Kernels().compensate(p.size(), scale, 0, now, then, grads);
    } else if (m.compensation_adaptive) {
      Kernels().compensate_adaptive(p.size(), scale, m.compensation,
                                    kMeanSquareDecay, 1, kMeanSquareEps, now,
                                    then, mean_square_ + p.offset, grads);
    } else {
      Kernels().compensate(p.size(), scale, m.compensation, now, then, grads);
    }
  }
}

void StageUpdate::Predict(const UpdateInput& input, const StageLr& lr) {
  for (size_t i = 0; i < lrs_ahead_.size(); ++i) {
    lrs_ahead_[i] = LrAhead(spec_, input.update, static_cast<int64_t>(i) + 1);
  }
  optimizer_.Predict({.update = input.update,
                      .lrs = lrs_ahead_,
                      .matrix_lr_factor = lr.matrix_factor},
                     input.new_weights, input.predicted);
}

void StageUpdate::FillBackwardWeights(const float* newest, float* out) const {
  Kernels().apply(table_.size(), 1, static_cast<double>(spec_.delay), newest,
                  velocity_, out);
}

void StageUpdate::AddState(const char* suffix, float* arena,
                           std::vector<StateTensor<float>>* state) const {
  for (const Param& p : table_.params()) {
    state->push_back({.name = p.name + suffix,
                      .layer = p.layer,
                      .rows = p.rows,
                      .cols = p.cols,
                      .data = arena + p.offset,
                      .of_delay = true});
  }
}

std::vector<StateTensor<float>> StageUpdate::State() const {
  std::vector<StateTensor<float>> state = optimizer_.State();
  if (previous_ != nullptr) AddState(".u", previous_, &state);
  if (velocity_ != nullptr) AddState(".d", velocity_, &state);
  if (mean_square_ != nullptr) AddState(".g2", mean_square_, &state);
  return state;
}

Optimizer<float>::Bytes StageUpdate::bytes() const {
  return Count(spec_, table_);
}

Optimizer<float>::Bytes StageUpdate::Count(const StageUpdateSpec& spec,
                                           const ParameterTable& table) {
  auto bytes = Optimizer<float>::Count(SpecOfStage(spec), table);
  const int64_t arenas = OwnArenas(spec);
  bytes.held += arenas * table.size() * 4;
  bytes.state += arenas * table.parameter_count() * 4;
  return bytes;
}

}  // namespace gimbal::worker
