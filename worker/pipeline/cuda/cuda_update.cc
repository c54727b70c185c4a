#include "worker/pipeline/cuda/cuda_update.h"

#include "worker/compute/cuda/update.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;

OptimizerSpec SpecOfStage(const StageUpdateSpec& spec) {
  OptimizerSpec optimizer = spec.optimizer;
  optimizer.beta1 = Beta1OfStage(spec.mitigation, spec.delay, optimizer.beta1);
  return optimizer;
}

bool HasSecondMoment(const OptimizerSpec& spec) {
  return spec.kind != OptimizerKind::kSgd;
}

}  // namespace

CudaUpdate::CudaUpdate(const StageUpdateSpec& spec, const ParameterTable& table,
                       cudaStream_t stream)
    : spec_(spec),
      table_(table),
      stream_(stream),
      adam_(SpecOfStage(spec)),
      m_(table.size()),
      v_(HasSecondMoment(spec.optimizer) ? table.size() : 0) {}

void CudaUpdate::Apply(const UpdateInput& input) {
  const StageLr lr = LrOfStage(spec_.mitigation, spec_.delay, input.update,
                               LearningRate(spec_.lr, input.update));
  if (MomentsReset(adam_.spec(), input.update)) {
    GIMBAL_CUDA_CHECK(cudaMemsetAsync(m_.data(), 0, m_.bytes(), stream_));
    if (v_.size() > 0) {
      GIMBAL_CUDA_CHECK(cudaMemsetAsync(v_.data(), 0, v_.bytes(), stream_));
    }
  }
  const double scale = ClipScale(input.square_sum, spec_.clip);
  for (const Run& run : RunsAt(lr)) {
    Step(input, run, lr.lr * run.lr_factor, scale);
  }
}

// Padding between parameters stays zero whatever rule goes over it.
std::vector<CudaUpdate::Run> CudaUpdate::RunsAt(const StageLr& lr) const {
  std::vector<Run> runs;
  for (const Param& p : table_.params()) {
    const double factor =
        p.group == ParamGroup::kMatrix ? lr.matrix_factor : 1.0;
    if (runs.empty() || runs.back().lr_factor != factor) {
      runs.push_back({.begin = p.offset, .lr_factor = factor});
    }
    runs.back().end = p.offset + p.size();
  }
  return runs;
}

void CudaUpdate::Step(const UpdateInput& input, const Run& run, double lr,
                      double scale) {
  const int64_t n = run.end - run.begin;
  const float* old_weights = input.old_weights + run.begin;
  const float* grads = input.grads + run.begin;
  float* new_weights = input.new_weights + run.begin;
  float* m = m_.data() + run.begin;
  const OptimizerSpec& optimizer = adam_.spec();
  if (optimizer.kind == OptimizerKind::kSgd) {
    cuda::SgdStep(stream_, n, optimizer.beta1, scale, optimizer.nesterov,
                  1 - lr * optimizer.weight_decay, lr, old_weights, grads, m,
                  new_weights);
    return;
  }
  cuda::AdamWStep(stream_, n, adam_.At(input.update, lr, scale), old_weights,
                  grads, m, v_.data() + run.begin, new_weights);
}

std::vector<StateTensor<float>> CudaUpdate::State() const {
  std::vector<StateTensor<float>> state;
  for (const Param& p : table_.params()) {
    state.push_back(
        {p.name + ".m", p.layer, p.rows, p.cols, m_.data() + p.offset});
    if (v_.size() == 0) continue;
    state.push_back(
        {p.name + ".v", p.layer, p.rows, p.cols, v_.data() + p.offset});
  }
  return state;
}

}  // namespace gimbal::worker
