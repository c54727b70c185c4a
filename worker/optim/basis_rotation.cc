#include "worker/optim/basis_rotation.h"

#include <algorithm>
#include <cmath>

#include "common/base/clock.h"
#include "worker/compute/gemm.h"
#include "worker/compute/isa.h"
#include "worker/optim/adamw.h"
#include "worker/optim/basis.h"
#include "worker/optim/kernels.h"
#include "worker/optim/lapack.h"

namespace gimbal::worker {
namespace {

using compute::Trans;

template <typename T>
void SetIdentity(int64_t n, T* a) {
  std::fill_n(a, n * n, T{0});
  for (int64_t i = 0; i < n; ++i) a[i * n + i] = 1;
}

// Memory for n halves, in whole elements of T.
template <typename T>
uint16_t* TakeHalves(int64_t n, compute::Carver<T>& memory) {
  constexpr int64_t kPerElement = sizeof(T) / sizeof(uint16_t);
  return reinterpret_cast<uint16_t*>(
      memory.Take((n + kPerElement - 1) / kPerElement));
}

}  // namespace

RotatedSides SidesToRotate(const RotationSpec& spec, const Param& param) {
  RotatedSides sides;
  if (param.group == ParamGroup::kMatrix) {
    const bool both = spec.geometry == RotationGeometry::kBilateral;
    sides.left = both || param.rows < param.cols;
    sides.right = both || param.cols <= param.rows;
  } else if (param.group == ParamGroup::kEmbedding && spec.embeddings) {
    sides.right = true;
  }
  if (spec.max_dim > 0) {
    sides.left &= param.rows <= spec.max_dim;
    sides.right &= param.cols <= spec.max_dim;
  }
  return sides;
}

template <typename T>
BasisRotation<T>::BasisRotation(const Param& param, AdamRule& rule,
                                compute::Carver<T>& memory)
    : param_(param),
      rule_(rule),
      m_(memory.Take(param.size())),
      v_(memory.Take(param.size())),
      health_(memory.Take(2)) {
  const RotatedSides sides = SidesToRotate(rotation(), param);
  left_ = {.n = param.rows, .rotated = sides.left};
  right_ = {.n = param.cols, .rotated = sides.right};
  for (Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    const int64_t size = side->n * side->n;
    if (!FromMoment()) side->covariance = memory.Take(size);
    if (rotation().half_basis) {
      side->half = TakeHalves(size, memory);
    } else {
      side->stored = memory.Take(size);
    }
    if (m_ == nullptr) continue;  // only counted
    if (rotation().half_basis) {
      std::vector<T> identity(static_cast<size_t>(size));
      SetIdentity(side->n, identity.data());
      side->basis = identity.data();
      Pack(*side);
    } else {
      SetIdentity(side->n, side->stored);
    }
  }
}

template <typename T>
void BasisRotation<T>::Step(const StepContext<T>& context, const T* old_weights,
                            const T* grads, T* new_weights,
                            const OptimizerScratch<T>& scratch) {
  const int64_t n = param_.size();
  const Work work = Unpack(scratch);
  if (MomentsReset(rule_.spec(), context.update)) {
    std::fill_n(m_, n, T{0});
    std::fill_n(v_, n, T{0});
  }
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  const auto [direction_rule, step] =
      rule_.RotatedAt(context.update, context.lr * LrFactor(context, param_));
  AdamWRule rule = direction_rule;
  const T scale = static_cast<T>(context.scale);
  const bool cold = context.update == 1;
  const bool refresh = cold || context.refresh;
  base::Stopwatch watch;
  if (!FromMoment()) UpdateCovariances(context.scale, grads);
  seconds_.rotate += watch.Lap();
  if (refresh && FromMoment()) {
    // The statistic is M with this gradient, so M is updated ahead of the
    // kernel below, which then leaves it alone.
    const double b1 = rule.moments.beta1;
    ToRotated(scale, grads, work.direction, work.product);
    kernels.apply(n, b1, -(1 - b1), m_, work.direction, m_);
    rule.moments.beta1 = 1;
  }
  if (refresh) Refresh(cold, work);
  seconds_.refresh += watch.Lap();
  ToRotated(scale, grads, work.direction, work.product);
  if (context.compensation != nullptr) Compensate(context, old_weights, work);
  kernels.rotated_direction(n, rule, work.direction, m_, v_);
  ToOriginal(work.direction, work.direction, work.product);
  seconds_.rotate += watch.Lap();
  kernels.apply(n, rule.keep, step, old_weights, work.direction, new_weights);
}

// DC-ASGD in the rotated space: the weights' difference is rotated too.
template <typename T>
void BasisRotation<T>::Compensate(const StepContext<T>& context, const T* now,
                                  const Work& work) {
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  const DelayCompensation<T>& c = *context.compensation;
  const int64_t n = param_.size();
  T* difference = work.rest.data();
  const T* then = c.then + param_.offset;
  for (int64_t i = 0; i < n; ++i) difference[i] = now[i] - then[i];
  ToRotated(1, difference, difference, work.product);
  std::fill_n(work.product, n, T{0});
  if (c.adaptive) {
    const double root_factor =
        1 / std::sqrt(std::max(
                1e-12, 1 - std::pow(rule_.spec().beta2,
                                    static_cast<double>(context.update - 1))));
    kernels.compensate_adaptive(n, 1, c.lambda, 1, root_factor,
                                rule_.spec().eps, difference, work.product, v_,
                                work.direction);
  } else {
    kernels.compensate(n, 1, c.lambda, difference, work.product,
                       work.direction);
  }
}

// Sum over the updates ahead of their steps: momentum decays by b1 each time,
// everything else stays, so the direction is one.
template <typename T>
void BasisRotation<T>::Predict(const PredictContext& context, const T* weights,
                               T* predicted,
                               const OptimizerScratch<T>& scratch) {
  const Work work = Unpack(scratch);
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  const int64_t n = param_.size();
  double step = 0;
  for (size_t i = 0; i < context.lrs.size(); ++i) {
    const PredictionTerm term =
        rule_.Ahead(context.update, static_cast<int64_t>(i) + 1,
                    context.lrs[i] * LrFactor(context, param_));
    step += term.step / term.root_factor;
  }
  const PredictionTerm whole{.step = -1, .root_factor = 1};
  kernels.predict(n, &whole, 1, rule_.spec().eps, nullptr, m_, v_,
                  work.direction);
  ToOriginal(work.direction, work.direction, work.product);
  kernels.apply(n, 1, step, weights, work.direction, predicted);
}

template <typename T>
typename BasisRotation<T>::Work BasisRotation<T>::Unpack(
    const OptimizerScratch<T>& scratch) {
  Work work{.ints = scratch.ints};
  compute::Carver<T> carver(scratch.values.data());
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  for (Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    if (side->half == nullptr) {
      side->basis = side->stored;
      continue;
    }
    const int64_t size = side->n * side->n;
    side->basis = carver.Take(size);
    kernels.from_half(size, side->half, side->basis);
  }
  work.product = carver.Take(param_.size());
  work.direction = carver.Take(param_.size());
  work.rest = scratch.values.subspan(static_cast<size_t>(carver.used()));
  return work;
}

template <typename T>
void BasisRotation<T>::Pack(Side& side) {
  if (side.half == nullptr) return;
  const auto& kernels = compute::Kernels<OptimKernels<T>>();
  kernels.to_half(side.n * side.n, side.basis, side.half);
  kernels.from_half(side.n * side.n, side.half, side.basis);
}

template <typename T>
int64_t BasisRotation<T>::RefreshScratch() const {
  int64_t bases = 0, estimate = 0;
  for (const Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    const int64_t size = compute::AlignedSize<T>(side->n * side->n);
    bases += size;
    estimate = std::max(
        estimate, (FromMoment() ? size : 0) + BasisScratchSize<T>(side->n));
  }
  if (FromMoment() && left_.rotated && right_.rotated) {
    estimate = std::max(estimate, PairScratchSize<T>(left_.n, right_.n));
  }
  if (rotation().transport == MomentTransport::kPermute) return estimate;
  // The old bases, and the relative rotation of each side.
  return bases + std::max(estimate, bases);
}

template <typename T>
ScratchSize BasisRotation<T>::scratch_size() const {
  compute::Carver<T> counter(nullptr);
  for (const Side* side : {&left_, &right_}) {
    if (side->rotated && rotation().half_basis) counter.Take(side->n * side->n);
  }
  counter.Take(param_.size());
  counter.Take(param_.size());
  counter.Take(std::max(param_.size(), RefreshScratch()));
  const int64_t larger = std::max(left_.n, right_.n);
  return {.values = counter.used(),
          .ints = left_.n + right_.n +
                  std::max(BasisIntScratchSize(larger),
                           PairIntScratchSize(left_.n, right_.n))};
}

template <typename T>
void BasisRotation<T>::UpdateCovariances(double scale, const T* grads) {
  const double b2 = rule_.spec().beta2;
  const T alpha = static_cast<T>((1 - b2) * scale * scale);
  const T beta = static_cast<T>(b2);
  if (left_.rotated) {
    SyrkRows(left_.n, right_.n, alpha, grads, beta, left_.covariance);
  }
  if (right_.rotated) {
    SyrkColumns(right_.n, left_.n, alpha, grads, beta, right_.covariance);
  }
}

template <typename T>
void BasisRotation<T>::ToRotated(T alpha, const T* in, T* out,
                                 T* product) const {
  const auto [m, n] = std::pair(left_.n, right_.n);
  if (!left_.rotated) {
    std::copy_n(in, m * n, product);
    compute::Gemm<T>(Trans::kNo, Trans::kYes, m, n, n, alpha, product, n,
                     right_.basis, n, 0, out, n);
    return;
  }
  if (right_.rotated) {
    compute::Gemm<T>(Trans::kNo, Trans::kYes, m, n, n, alpha, in, n,
                     right_.basis, n, 0, product, n);
    alpha = 1;
  } else {
    std::copy_n(in, m * n, product);
  }
  compute::Gemm<T>(Trans::kNo, Trans::kNo, m, n, m, alpha, left_.basis, m,
                   product, n, 0, out, n);
}

template <typename T>
void BasisRotation<T>::ToOriginal(const T* in, T* out, T* product) const {
  const auto [m, n] = std::pair(left_.n, right_.n);
  if (!left_.rotated) {
    std::copy_n(in, m * n, product);
    compute::Gemm<T>(Trans::kNo, Trans::kNo, m, n, n, 1, product, n,
                     right_.basis, n, 0, out, n);
    return;
  }
  if (right_.rotated) {
    compute::Gemm<T>(Trans::kNo, Trans::kNo, m, n, n, 1, in, n, right_.basis, n,
                     0, product, n);
  } else {
    std::copy_n(in, m * n, product);
  }
  compute::Gemm<T>(Trans::kYes, Trans::kNo, m, n, m, 1, left_.basis, m, product,
                   n, 0, out, n);
}

template <typename T>
std::vector<StateTensor<T>> BasisRotation<T>::State() const {
  std::vector<StateTensor<T>> state;
  const auto add = [&](const char* suffix, int64_t rows, int64_t cols, T* data,
                       uint16_t* half = nullptr) {
    state.push_back(
        {param_.name + suffix, param_.layer, rows, cols, data, half});
  };
  add(".m", param_.rows, param_.cols, m_);
  add(".v", param_.rows, param_.cols, v_);
  for (const Side* side : {&left_, &right_}) {
    if (!side->rotated || FromMoment()) continue;
    add(side == &left_ ? ".L" : ".R", side->n, side->n, side->covariance);
  }
  for (const Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    add(side == &left_ ? ".U" : ".V", side->n, side->n, side->stored,
        side->half);
  }
  add(".health", 1, 2, health_);
  return state;
}

template <typename T>
std::optional<BasisHealth> BasisRotation<T>::health() const {
  return BasisHealth{.offdiagonal_ratio = health_[0],
                     .orthogonality_error = health_[1]};
}

template class BasisRotation<float>;
template class BasisRotation<double>;

}  // namespace gimbal::worker
