#include "worker/pipeline/cuda/cuda_update.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "worker/compute/cuda/update.h"
#include "worker/optim/basis_rotation.h"
#include "worker/optim/stage_rules.h"
#include "worker/pipeline/cuda/cuda_muon.h"
#include "worker/pipeline/cuda/cuda_rotation.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;

bool HasSecondMoment(const OptimizerSpec& spec) {
  return spec.kind != OptimizerKind::kSgd;
}

// Parameters that are updated as matrices.
bool IsGrouped(const OptimizerSpec& spec, const Param& p) {
  switch (spec.kind) {
    case OptimizerKind::kBasisRotation:
      return SidesToRotate(spec.rotation, p).any();
    case OptimizerKind::kMuon:
      return p.group == ParamGroup::kMatrix;
    default:
      return false;
  }
}

}  // namespace

CudaUpdate::CudaUpdate(const StageUpdateSpec& spec, const ParameterTable& table,
                       cudaStream_t stream, cuda::Gemm& gemm)
    : spec_(spec),
      needs_(spec),
      table_(table),
      stream_(stream),
      adam_(SpecOfStage(spec)),
      laps_(stream) {
  MakeGroups(gemm);
  MakeRuns();
  const int64_t size = runs_.empty() ? 0
                                     : runs_.back().state + runs_.back().end -
                                           runs_.back().begin;
  m_ = cuda::DeviceBuffer<float>(size);
  if (HasSecondMoment(spec.optimizer)) v_ = cuda::DeviceBuffer<float>(size);
  int64_t scratch = 0;
  for (const auto& rule : groups_) {
    scratch = std::max(scratch, rule->scratch_size());
  }
  scratch_ = cuda::DeviceBuffer<float>(scratch);
  const auto arena = [&](bool used) {
    return cuda::DeviceBuffer<float>(used ? table.size() : 0);
  };
  previous_ = arena(FeedsBack(spec));
  velocity_ = arena(needs_.correction);
  mean_square_ = arena(AveragesSquares(spec));
}

CudaUpdate::~CudaUpdate() = default;

void CudaUpdate::MakeGroups(cuda::Gemm& gemm) {
  using Key = std::tuple<ParamGroup, int64_t, int64_t>;
  std::map<Key, std::vector<const Param*>> members;
  std::vector<Key> order;  // of their first parameters
  for (const Param& p : table_.params()) {
    if (!IsGrouped(spec_.optimizer, p)) continue;
    const Key key(p.group, p.rows, p.cols);
    if (members[key].empty()) order.push_back(key);
    members[key].push_back(&p);
  }
  if (order.empty()) return;
  linalg_ = std::make_unique<CudaLinalg>(stream_, gemm);
  for (const Key& key : order) {
    if (spec_.optimizer.kind == OptimizerKind::kMuon) {
      groups_.push_back(std::make_unique<CudaMuon>(std::move(members[key]),
                                                   adam_.spec(), *linalg_));
    } else {
      groups_.push_back(std::make_unique<CudaRotation>(std::move(members[key]),
                                                       adam_, *linalg_, laps_));
    }
    const GroupRule* rule = groups_.back().get();
    for (int64_t i = 0; i < rule->group().count(); ++i) {
      grouped_[rule->group().params()[static_cast<size_t>(i)]->name] = {rule,
                                                                        i};
    }
  }
}

// Padding between parameters stays zero whatever rule goes over it.
void CudaUpdate::MakeRuns() {
  bool adjacent = false;
  int64_t state = 0;
  for (const Param& p : table_.params()) {
    if (IsGrouped(spec_.optimizer, p)) {
      adjacent = false;
      continue;
    }
    const bool matrix = p.group == ParamGroup::kMatrix;
    if (!adjacent || runs_.back().matrices != matrix) {
      state = cuda::BatchStride(state);
      runs_.push_back({.begin = p.offset, .state = state, .matrices = matrix});
      adjacent = true;
    }
    Run& run = runs_.back();
    run.end = p.offset + p.size();
    state = run.state + run.end - run.begin;
  }
}

void CudaUpdate::Apply(const UpdateInput& input) {
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
  Step(context, input);
  const int64_t n = table_.size();
  if (previous_.size() > 0) {
    cuda::ErrorFeedback(stream_, n, input.old_weights, previous_.data(),
                        input.new_weights);
  }
  if (needs_.correction) {
    const double decay = std::pow(spec_.mitigation.discrepancy_decay,
                                  1 / static_cast<double>(spec_.delay));
    cuda::TrackVelocity(stream_, n, decay, input.old_weights, input.new_weights,
                        velocity_.data());
  }
  if (needs_.prediction) Predict(input, lr);
  if (input.refresh || input.update == 1) health_known_ = false;
}

void CudaUpdate::Step(const StepContext<float>& context,
                      const UpdateInput& input) {
  if (MomentsReset(adam_.spec(), input.update)) ResetMoments();
  for (const Run& run : runs_) {
    StepRun(input, run,
            context.lr * (run.matrices ? context.matrix_lr_factor : 1.0),
            context.scale);
  }
  for (const auto& rule : groups_) {
    rule->Step(context, input.old_weights, input.grads, input.new_weights,
               scratch_.data());
  }
}

// Everything but what the groups do in their rotated spaces; there the gradient
// is only scaled. Parameter by parameter: neighbours may differ in that.
void CudaUpdate::CompensateInPlace(const UpdateInput& input, double scale) {
  const MitigationSpec& m = spec_.mitigation;
  for (const Param& p : table_.params()) {
    float* grads = input.grads + p.offset;
    const float* now = input.old_weights + p.offset;
    const float* then = input.then + p.offset;
    if (CompensatesRotated(spec_, p)) {
      cuda::Compensate(stream_, p.size(), scale, 0, now, then, grads);
    } else if (m.compensation_adaptive) {
      cuda::CompensateAdaptive(stream_, p.size(), scale, m.compensation,
                               kMeanSquareDecay, 1, kMeanSquareEps, now, then,
                               mean_square_.data() + p.offset, grads);
    } else {
      cuda::Compensate(stream_, p.size(), scale, m.compensation, now, then,
                       grads);
    }
  }
}

void CudaUpdate::Predict(const UpdateInput& input, const StageLr& lr) {
  std::vector<double> lrs;
  for (int64_t ahead = 1; ahead <= spec_.delay; ++ahead) {
    lrs.push_back(LrAhead(spec_, input.update, ahead));
  }
  const PredictContext context{
      .update = input.update, .lrs = lrs, .matrix_lr_factor = lr.matrix_factor};
  for (const Run& run : runs_) PredictRun(context, run, input);
  for (const auto& rule : groups_) {
    rule->Predict(context, input.new_weights, input.predicted, scratch_.data());
  }
}

void CudaUpdate::PredictRun(const PredictContext& context, const Run& run,
                            const UpdateInput& input) {
  const int64_t n = run.end - run.begin;
  const double factor = run.matrices ? context.matrix_lr_factor : 1.0;
  const float* weights = input.new_weights + run.begin;
  const float* m = m_.data() + run.state;
  float* predicted = input.predicted + run.begin;
  if (adam_.spec().kind == OptimizerKind::kSgd) {
    const double lr =
        std::accumulate(context.lrs.begin(), context.lrs.end(), 0.0) * factor;
    cuda::ApplyDirection(stream_, n, 1, lr, weights, m, predicted);
    return;
  }
  std::vector<PredictionTerm> terms;
  for (const double lr : context.lrs) {
    const auto ahead = static_cast<int64_t>(terms.size()) + 1;
    terms.push_back(adam_.Ahead(context.update, ahead, lr * factor));
  }
  const auto count = static_cast<int64_t>(terms.size());
  for (int64_t begin = 0; begin < count; begin += cuda::kPredictionTerms) {
    cuda::Predict(stream_, n, &terms[static_cast<size_t>(begin)],
                  std::min(cuda::kPredictionTerms, count - begin),
                  adam_.spec().eps, begin == 0 ? weights : predicted, m,
                  v_.data() + run.state, predicted);
  }
}

void CudaUpdate::FillBackwardWeights(const float* newest, float* out) const {
  cuda::ApplyDirection(stream_, table_.size(), 1,
                       static_cast<double>(spec_.delay), newest,
                       velocity_.data(), out);
}

void CudaUpdate::ResetMoments() {
  for (const auto* moments : {&m_, &v_}) {
    if (moments->size() == 0) continue;
    GIMBAL_CUDA_CHECK(
        cudaMemsetAsync(moments->data(), 0, moments->bytes(), stream_));
  }
}

void CudaUpdate::StepRun(const UpdateInput& input, const Run& run, double lr,
                         double scale) {
  const int64_t n = run.end - run.begin;
  const float* old_weights = input.old_weights + run.begin;
  const float* grads = input.grads + run.begin;
  float* new_weights = input.new_weights + run.begin;
  float* m = m_.data() + run.state;
  const OptimizerSpec& optimizer = adam_.spec();
  if (optimizer.kind == OptimizerKind::kSgd) {
    cuda::SgdStep(stream_, n, optimizer.beta1, scale, optimizer.nesterov,
                  1 - lr * optimizer.weight_decay, lr, old_weights, grads, m,
                  new_weights);
    return;
  }
  cuda::AdamWStep(stream_, n, adam_.At(input.update, lr, scale), old_weights,
                  grads, m, v_.data() + run.state, new_weights);
}

std::vector<StateTensor<float>> CudaUpdate::State() const {
  std::vector<StateTensor<float>> state;
  size_t at = 0;  // in the runs
  for (const Param& p : table_.params()) {
    if (const auto found = grouped_.find(p.name); found != grouped_.end()) {
      const auto& [rule, i] = found->second;
      for (auto& tensor : rule->State(i)) state.push_back(std::move(tensor));
      continue;
    }
    while (p.offset >= runs_[at].end) ++at;
    const int64_t place = runs_[at].state + p.offset - runs_[at].begin;
    state.push_back(
        {p.name + ".m", p.layer, p.rows, p.cols, m_.data() + place});
    if (v_.size() == 0) continue;
    state.push_back(
        {p.name + ".v", p.layer, p.rows, p.cols, v_.data() + place});
  }
  const auto add = [&](const char* suffix,
                       const cuda::DeviceBuffer<float>& arena) {
    if (arena.size() == 0) return;
    for (const Param& p : table_.params()) {
      state.push_back({.name = p.name + suffix,
                       .layer = p.layer,
                       .rows = p.rows,
                       .cols = p.cols,
                       .data = arena.data() + p.offset,
                       .of_delay = true});
    }
  };
  add(".u", previous_);
  add(".d", velocity_);
  add(".g2", mean_square_);
  return state;
}

std::optional<BasisHealth> CudaUpdate::basis_health() const {
  if (health_known_) return health_;
  health_.reset();
  for (const auto& rule : groups_) {
    if (rule->health() == nullptr) continue;
    std::vector<float> values(static_cast<size_t>(2 * rule->group().count()));
    GIMBAL_CUDA_CHECK(cudaMemcpyAsync(values.data(), rule->health(),
                                      values.size() * sizeof(float),
                                      cudaMemcpyDeviceToHost, stream_));
    GIMBAL_CUDA_CHECK(cudaStreamSynchronize(stream_));
    if (!health_) health_.emplace();
    for (size_t i = 0; i < values.size(); i += 2) {
      health_->offdiagonal_ratio =
          std::max<double>(health_->offdiagonal_ratio, values[i]);
      health_->orthogonality_error =
          std::max<double>(health_->orthogonality_error, values[i + 1]);
    }
  }
  health_known_ = true;
  return health_;
}

}  // namespace gimbal::worker
