#include "worker/pipeline/cuda/cuda_update.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "worker/compute/cuda/update.h"
#include "worker/optim/stage_rules.h"
#include "worker/pipeline/cuda/cuda_muon.h"
#include "worker/pipeline/cuda/cuda_rotation.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;

bool HasSecondMoment(const OptimizerSpec& spec) {
  return spec.kind != OptimizerKind::kSgd;
}

float* Moment(std::byte* extent, const UpdateRun& run) {
  return reinterpret_cast<float*>(extent) + run.state;
}

}  // namespace

CudaUpdate::CudaUpdate(const StageUpdateSpec& spec, const ParameterTable& table,
                       cudaStream_t stream, cuda::Gemm& gemm)
    : spec_(spec),
      needs_(spec),
      table_(table),
      stream_(stream),
      adam_(SpecOfStage(spec)),
      laps_(stream),
      units_(spec.optimizer, table),
      state_(stream, units_, spec.optimizer.offload) {
  MakeRules(gemm);
  FindHomes();
  int64_t scratch = 0;
  for (const Rule& rule : rules_) {
    if (rule) scratch = std::max(scratch, rule->scratch_size());
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

void CudaUpdate::MakeRules(cuda::Gemm& gemm) {
  for (size_t i = 0; i < units_.units.size(); ++i) {
    const UpdateUnit& unit = units_.units[i];
    Rule& rule = rules_.emplace_back();
    if (!unit.updates_matrices()) continue;
    if (!linalg_) linalg_ = std::make_unique<CudaLinalg>(stream_, gemm);
    if (spec_.optimizer.kind == OptimizerKind::kMuon) {
      rule = std::make_unique<CudaMuon>(unit.matrices, adam_.spec(), *linalg_);
    } else {
      rule =
          std::make_unique<CudaRotation>(unit.matrices, adam_, *linalg_, laps_);
    }
    rule->Initialize(state_.home(i));
  }
}

// Moments of runs lie at home as if runs were never cut.
void CudaUpdate::FindHomes() {
  for (size_t i = 0; i < units_.units.size(); ++i) {
    const UpdateUnit& unit = units_.units[i];
    for (size_t m = 0; m < unit.matrices.size(); ++m) {
      homes_[unit.matrices[m]] = {i, static_cast<int64_t>(m)};
    }
    for (const UpdateRun& run : unit.runs) {
      for (const Param& p : table_.params()) {
        if (p.offset < run.begin || p.offset >= run.end) continue;
        homes_[&p] = {i, run.state + p.offset - run.begin};
      }
    }
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
  const bool reset = MomentsReset(adam_.spec(), input.update);
  const bool new_bases = context.refresh || input.update == 1;
  for (size_t i = 0; i < units_.units.size(); ++i) {
    const UpdateUnit& unit = units_.units[i];
    const StatePlace place = state_.Begin(i);
    if (unit.updates_matrices()) {
      linalg_->ChooseFor(unit.of_shape);
      rules_[i]->Use(place);
      rules_[i]->Step(context, input.old_weights, input.grads,
                      input.new_weights, scratch_.data());
      state_.End(i, new_bases ? 2 : 1);
      continue;
    }
    if (reset) ZeroState(unit, place);
    for (const UpdateRun& run : unit.runs) {
      StepRun(input, run, place,
              context.lr * (run.matrices ? context.matrix_lr_factor : 1.0),
              context.scale);
    }
    state_.End(i, 2);
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
  for (size_t i = 0; i < units_.units.size(); ++i) {
    const UpdateUnit& unit = units_.units[i];
    const StatePlace place = state_.Begin(i);
    if (unit.updates_matrices()) {
      linalg_->ChooseFor(unit.of_shape);
      rules_[i]->Use(place);
      rules_[i]->Predict(context, input.new_weights, input.predicted,
                         scratch_.data());
    }
    for (const UpdateRun& run : unit.runs) {
      PredictRun(context, run, place, input);
    }
    state_.End(i, 0);
  }
}

void CudaUpdate::PredictRun(const PredictContext& context, const UpdateRun& run,
                            StatePlace place, const UpdateInput& input) {
  const int64_t n = run.end - run.begin;
  const double factor = run.matrices ? context.matrix_lr_factor : 1.0;
  const float* weights = input.new_weights + run.begin;
  const float* m = Moment(place.first, run);
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
                  Moment(place.second, run), predicted);
  }
}

void CudaUpdate::ZeroState(const UpdateUnit& unit, StatePlace place) {
  for (const auto& [at, extent] : {std::pair(place.first, unit.state[0]),
                                   std::pair(place.second, unit.state[1])}) {
    if (extent.bytes == 0) continue;
    GIMBAL_CUDA_CHECK(
        cudaMemsetAsync(at, 0, static_cast<size_t>(extent.bytes), stream_));
  }
}

void CudaUpdate::FillBackwardWeights(const float* newest, float* out) const {
  cuda::ApplyDirection(stream_, table_.size(), 1,
                       static_cast<double>(spec_.delay), newest,
                       velocity_.data(), out);
}

void CudaUpdate::StepRun(const UpdateInput& input, const UpdateRun& run,
                         StatePlace place, double lr, double scale) {
  const int64_t n = run.end - run.begin;
  const float* old_weights = input.old_weights + run.begin;
  const float* grads = input.grads + run.begin;
  float* new_weights = input.new_weights + run.begin;
  float* m = Moment(place.first, run);
  const OptimizerSpec& optimizer = adam_.spec();
  if (optimizer.kind == OptimizerKind::kSgd) {
    cuda::SgdStep(stream_, n, optimizer.beta1, scale, optimizer.nesterov,
                  1 - lr * optimizer.weight_decay, lr, old_weights, grads, m,
                  new_weights);
    return;
  }
  cuda::AdamWStep(stream_, n, adam_.At(input.update, lr, scale), old_weights,
                  grads, m, Moment(place.second, run), new_weights);
}

std::vector<StateTensor<float>> CudaUpdate::State() const {
  std::vector<StateTensor<float>> state;
  for (const Param& p : table_.params()) {
    const Home& at = homes_.at(&p);
    const StatePlace home = state_.home(at.unit);
    if (rules_[at.unit]) {
      for (auto& tensor : rules_[at.unit]->State(at.place, home)) {
        state.push_back(std::move(tensor));
      }
      continue;
    }
    const auto add = [&](const char* suffix, std::byte* moments) {
      state.push_back({p.name + suffix, p.layer, p.rows, p.cols,
                       reinterpret_cast<float*>(moments) + at.place});
    };
    add(".m", home.first);
    if (HasSecondMoment(spec_.optimizer)) add(".v", home.second);
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
  for (const Rule& rule : rules_) {
    if (!rule || rule->health() == nullptr) continue;
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
