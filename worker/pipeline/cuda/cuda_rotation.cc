#include "worker/pipeline/cuda/cuda_rotation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/compute/cuda/basis.h"
#include "worker/compute/cuda/reduce.h"
#include "worker/compute/cuda/update.h"
#include "worker/optim/adamw.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;
using compute::Trans;
using Part = CudaLaps::Part;

void CopyOnDevice(cudaStream_t stream, int64_t n, const float* from,
                  float* to) {
  GIMBAL_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(n) * 4,
                                    cudaMemcpyDeviceToDevice, stream));
}

void ZeroOnDevice(cudaStream_t stream, int64_t n, float* x) {
  GIMBAL_CUDA_CHECK(cudaMemsetAsync(x, 0, static_cast<size_t>(n) * 4, stream));
}

}  // namespace

CudaRotation::CudaRotation(std::vector<const Param*> params, AdamRule& rule,
                           CudaLinalg& linalg, CudaLaps& laps)
    : group_(std::move(params)),
      rule_(rule),
      linalg_(linalg),
      laps_(laps),
      health_(2 * group_.count()),
      order_(group_.count() * (group_.batch().rows + group_.batch().cols)) {
  const RotatedSides sides = SidesToRotate(rotation(), group_.first());
  const auto make = [&](Side& side, int64_t n, bool rotated) {
    side.rotated = rotated;
    if (!rotated) return;
    side.bases.emplace(linalg, group_.count(), n, rotation().half_basis);
  };
  make(left_, group_.batch().rows, sides.left);
  make(right_, group_.batch().cols, sides.right);
  if (!FromPair()) return;
  const int64_t count = group_.count();
  norms_ = cuda::DeviceBuffer<double>((1 + cuda::kReduceScratch) * count);
  ranges_ = cuda::DeviceBuffer<int64_t>(2 * count);
  std::vector<int64_t> ranges;
  for (const int64_t size : {int64_t{0}, group_.batch().size()}) {
    for (int64_t i = 0; i < count; ++i) {
      ranges.push_back(i * group_.batch().stride + size);
    }
  }
  GIMBAL_CUDA_CHECK(cudaMemcpy(ranges_.data(), ranges.data(), ranges_.bytes(),
                               cudaMemcpyHostToDevice));
}

CudaRotation::Parts CudaRotation::Divide(StatePlace place) const {
  Parts parts;
  auto* first = reinterpret_cast<float*>(place.first);
  const auto take = [&](int64_t elements) {
    return std::exchange(first, first + elements);
  };
  parts.m = take(group_.batch().elements());
  parts.v = take(group_.batch().elements());
  std::byte* bases = place.second;
  for (const int i : {0, 1}) {
    const Side& side = i == 0 ? left_ : right_;
    if (!side.rotated) continue;
    if (!FromMoment()) parts.covariances[i] = take(side.bases->elements());
    parts.bases[i] = std::exchange(bases, bases + side.bases->stored_bytes());
  }
  return parts;
}

void CudaRotation::Initialize(StatePlace home) const {
  const Parts parts = Divide(home);
  if (left_.rotated) left_.bases->Initialize(parts.bases[0]);
  if (right_.rotated) right_.bases->Initialize(parts.bases[1]);
}

void CudaRotation::Use(StatePlace place) {
  const Parts parts = Divide(place);
  m_ = parts.m;
  v_ = parts.v;
  for (const int i : {0, 1}) {
    Side& side = i == 0 ? left_ : right_;
    side.covariances = parts.covariances[i];
    if (side.rotated) side.bases->Use(parts.bases[i]);
  }
}

void CudaRotation::Step(const StepContext<float>& context,
                        const float* old_weights, const float* grads,
                        float* new_weights, float* scratch) {
  const cuda::MatrixBatch& batch = group_.batch();
  const cudaStream_t stream = linalg_.stream();
  const Work work = Unpack(scratch);
  if (MomentsReset(rule_.spec(), context.update)) {
    ZeroOnDevice(stream, batch.elements(), m_);
    ZeroOnDevice(stream, batch.elements(), v_);
  }
  const auto [direction_rule, step] = rule_.RotatedAt(
      context.update, context.lr * LrFactor(context, group_.first()));
  AdamWRule rule = direction_rule;
  const auto scale = static_cast<float>(context.scale);
  const bool cold = context.update == 1;
  const bool refresh = cold || context.refresh;
  laps_.Lap(Part::kOther);
  if (!FromMoment()) UpdateCovariances(context.scale, grads);
  laps_.Lap(Part::kRotate);
  if (refresh && FromMoment()) {
    // The statistic is M with this gradient, so M is updated ahead of the
    // kernel below, which then leaves it alone.
    const double b1 = rule.moments.beta1;
    cuda::GatherMatrices(stream, batch, grads, work.a);
    cuda::ApplyDirection(stream, batch.elements(), b1, -(1 - b1), m_,
                         ToRotated(scale, work.a, work.b), m_);
    rule.moments.beta1 = 1;
  }
  if (refresh) Refresh(cold, work);
  laps_.Lap(Part::kRefresh);
  cuda::GatherMatrices(stream, batch, grads, work.a);
  float* direction = ToRotated(scale, work.a, work.b);
  if (context.compensation != nullptr) {
    Compensate(context, old_weights, direction, work);
  }
  cuda::RotatedDirection(stream, batch.elements(), rule, direction, m_, v_);
  direction = ToOriginal(direction, direction == work.a ? work.b : work.a);
  laps_.Lap(Part::kRotate);
  cuda::ApplyMatrices(stream, batch, rule.keep, step, old_weights, direction,
                      new_weights);
}

// As BasisRotation's: the weights' difference is rotated too.
void CudaRotation::Compensate(const StepContext<float>& context,
                              const float* now, float* gradient,
                              const Work& work) {
  const DelayCompensation<float>& c = *context.compensation;
  const cuda::MatrixBatch& batch = group_.batch();
  const cudaStream_t stream = linalg_.stream();
  float* free = gradient == work.a ? work.b : work.a;
  cuda::GatherMatrices(stream, batch, now, free);
  cuda::GatherMatrices(stream, batch, c.then, work.rest);
  cuda::ApplyDirection(stream, batch.elements(), 1, 1, free, work.rest, free);
  float* difference = ToRotated(1, free, work.rest);
  float* zeros = difference == free ? work.rest : free;
  ZeroOnDevice(stream, batch.elements(), zeros);
  if (!c.adaptive) {
    cuda::Compensate(stream, batch.elements(), 1, c.lambda, difference, zeros,
                     gradient);
    return;
  }
  const double root_factor =
      1 / std::sqrt(std::max(
              1e-12, 1 - std::pow(rule_.spec().beta2,
                                  static_cast<double>(context.update - 1))));
  cuda::CompensateAdaptive(stream, batch.elements(), 1, c.lambda, 1,
                           root_factor, rule_.spec().eps, difference, zeros, v_,
                           gradient);
}

void CudaRotation::Predict(const PredictContext& context, const float* weights,
                           float* predicted, float* scratch) {
  const Work work = Unpack(scratch);
  const cuda::MatrixBatch& batch = group_.batch();
  double step = 0;
  for (size_t i = 0; i < context.lrs.size(); ++i) {
    const PredictionTerm term =
        rule_.Ahead(context.update, static_cast<int64_t>(i) + 1,
                    context.lrs[i] * LrFactor(context, group_.first()));
    step += term.step / term.root_factor;
  }
  const PredictionTerm whole{.step = -1, .root_factor = 1};
  cuda::Predict(linalg_.stream(), batch.elements(), &whole, 1, rule_.spec().eps,
                nullptr, m_, v_, work.a);
  const float* direction = ToOriginal(work.a, work.b);
  cuda::ApplyMatrices(linalg_.stream(), batch, 1, step, weights, direction,
                      predicted);
}

CudaRotation::Work CudaRotation::Unpack(float* scratch) {
  for (Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    side->bases->Unpack(scratch);
    scratch += side->bases->unpacked_size();
  }
  const int64_t elements = group_.batch().elements();
  return {
      .a = scratch, .b = scratch + elements, .rest = scratch + 2 * elements};
}

int64_t CudaRotation::RefreshScratch() const {
  int64_t old_bases = 0, estimate = 0;
  for (const Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    old_bases += side->bases->elements();
    estimate = std::max(estimate, (FromMoment() ? side->bases->elements() : 0) +
                                      side->bases->scratch_size());
  }
  if (FromPair()) {
    estimate = std::max(
        estimate, PairScratchSize(*left_.bases, *right_.bases, group_.count()));
  }
  const bool rotates = rotation().transport == MomentTransport::kRotate;
  return estimate + (rotates ? old_bases : 0);
}

int64_t CudaRotation::scratch_size() const {
  int64_t unpacked = 0;
  for (const Side* side : {&left_, &right_}) {
    if (side->rotated) unpacked += side->bases->unpacked_size();
  }
  return unpacked + 2 * group_.batch().elements() +
         std::max(group_.batch().elements(), RefreshScratch());
}

BatchOrder CudaRotation::Order(const Side& side) {
  const cuda::MatrixBatch& batch = group_.batch();
  return {order_.data() + (&side == &left_ ? 0 : batch.rows),
          batch.rows + batch.cols};
}

void CudaRotation::UpdateCovariances(double scale, const float* grads) {
  const double b2 = rule_.spec().beta2;
  const auto alpha = static_cast<float>((1 - b2) * scale * scale);
  const auto beta = static_cast<float>(b2);
  const auto [m, n] = std::pair(group_.batch().rows, group_.batch().cols);
  for (int64_t i = 0; i < group_.count(); ++i) {
    const float* g = grads + group_.params()[static_cast<size_t>(i)]->offset;
    if (left_.rotated) {
      linalg_.symmetric().Rows(m, n, alpha, g, beta,
                               left_.covariances + i * left_.bases->stride());
    }
    if (right_.rotated) {
      linalg_.symmetric().Columns(
          n, m, alpha, g, beta,
          right_.covariances + i * right_.bases->stride());
    }
  }
}

void CudaRotation::Refresh(bool cold, const Work& work) {
  const cuda::MatrixBatch& batch = group_.batch();
  const cudaStream_t stream = linalg_.stream();
  for (const Side* side : {&left_, &right_}) {
    const BatchOrder order = Order(*side);
    cuda::CountUp(stream, batch.count, side == &left_ ? batch.rows : batch.cols,
                  order.stride, order.data);
  }
  const bool rotates = rotation().transport == MomentTransport::kRotate;
  float* scratch = work.rest;
  float* old_bases[2] = {};
  for (const int i : {0, 1}) {
    const Side& side = i == 0 ? left_ : right_;
    if (!rotates || !side.rotated) continue;
    old_bases[i] = scratch;
    scratch += side.bases->elements();
    CopyOnDevice(stream, side.bases->elements(), side.bases->data(),
                 old_bases[i]);
  }
  ZeroOnDevice(stream, health_.size(), health_.data());
  if (FromPair() && !cold) MomentOffdiagonalRatios();
  float* moment = ToOriginal(m_, work.a);
  RefreshBases(cold, moment, scratch);
  for (Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    side->bases->Settle(rotation().max_orthogonality_error, health_.data(),
                        scratch);
  }
  // Ends in m_: as many products lead back as led away from it.
  ToRotated(1, moment, moment == m_ ? work.a : m_);
  if (cold) return;  // S is zero
  if (rotates) {
    RotateSecondMoment(old_bases[0], old_bases[1], work.a, scratch);
    return;
  }
  CopyOnDevice(stream, batch.elements(), v_, work.a);
  const BatchOrder order = Order(left_);
  cuda::PermuteBoth(stream, batch.count, batch.rows, batch.cols, batch.stride,
                    order.stride, order.data, work.a, v_);
}

void CudaRotation::RefreshBases(bool cold, const float* moment,
                                float* scratch) {
  if (FromPair()) {
    const BatchOperand moments{moment, group_.batch().stride};
    if (cold) {
      ColdStartPair(linalg_, group_.count(), moments, *left_.bases,
                    *right_.bases, scratch);
    } else {
      RefreshPair(linalg_, group_.count(), moments, *left_.bases, *right_.bases,
                  Order(left_), Order(right_), scratch);
    }
    return;
  }
  for (Side* side : {&left_, &right_}) {
    if (!side->rotated) continue;
    float* rest = scratch + (FromMoment() ? side->bases->elements() : 0);
    const float* statistics = Statistics(*side, moment, scratch);
    if (cold) {
      side->bases->ColdStart(statistics, rest);
    } else {
      side->bases->Refresh(statistics, Order(*side), health_.data(), rest);
    }
  }
}

const float* CudaRotation::Statistics(Side& side, const float* moment,
                                      float* squares) {
  if (!FromMoment()) return side.covariances;
  const auto [m, n] = std::pair(group_.batch().rows, group_.batch().cols);
  for (int64_t i = 0; i < group_.count(); ++i) {
    const float* from = moment + i * group_.batch().stride;
    float* to = squares + i * side.bases->stride();
    if (&side == &left_) {
      linalg_.symmetric().Rows(m, n, 1, from, 0, to);
    } else {
      linalg_.symmetric().Columns(n, m, 1, from, 0, to);
    }
  }
  return squares;
}

void CudaRotation::MomentOffdiagonalRatios() {
  const cuda::MatrixBatch& batch = group_.batch();
  const cudaStream_t stream = linalg_.stream();
  cuda::SquareSums(stream, batch.count, ranges_.data(),
                   ranges_.data() + batch.count, m_, norms_.data(),
                   norms_.data() + batch.count);
  cuda::OffdiagonalRatios(stream, batch.count, std::min(batch.rows, batch.cols),
                          batch.cols + 1, batch.stride, nullptr, m_,
                          norms_.data(), health_.data());
}

// As BasisRotation's, with the relative rotations X = new old^T.
void CudaRotation::RotateSecondMoment(const float* old_left,
                                      const float* old_right, float* product,
                                      float* scratch) {
  const auto relative = [&](const Side& side, const float* old) {
    const CudaBases& bases = *side.bases;
    linalg_.Product({.trans_b = Trans::kYes,
                     .count = group_.count(),
                     .m = bases.n(),
                     .n = bases.n(),
                     .k = bases.n()},
                    {bases.data(), bases.stride()}, {old, bases.stride()},
                    scratch, bases.stride());
    cuda::Square(linalg_.stream(), bases.elements(), scratch);
    return scratch;
  };
  float* in = v_;
  float* out = product;
  if (right_.rotated) {
    TimesRight(Trans::kYes, 1, relative(right_, old_right), in, out);
    std::swap(in, out);
  }
  if (left_.rotated) {
    TimesLeft(Trans::kNo, 1, relative(left_, old_left), in, out);
    std::swap(in, out);
  }
  if (in != v_) {
    CopyOnDevice(linalg_.stream(), group_.batch().elements(), in, v_);
  }
}

// The bases' rows are the columns of U and V: nothing is stored transposed.
float* CudaRotation::ToRotated(float alpha, float* in, float* other) {
  if (right_.rotated) {
    TimesRight(Trans::kYes, alpha, right_.bases->data(), in, other);
    std::swap(in, other);
    alpha = 1;
  }
  if (left_.rotated) {
    TimesLeft(Trans::kNo, alpha, left_.bases->data(), in, other);
    std::swap(in, other);
  }
  return in;
}

float* CudaRotation::ToOriginal(float* in, float* other) {
  if (right_.rotated) {
    TimesRight(Trans::kNo, 1, right_.bases->data(), in, other);
    std::swap(in, other);
  }
  if (left_.rotated) {
    TimesLeft(Trans::kYes, 1, left_.bases->data(), in, other);
    std::swap(in, other);
  }
  return in;
}

void CudaRotation::TimesLeft(Trans trans, float alpha, const float* matrices,
                             const float* in, float* out) {
  const cuda::MatrixBatch& batch = group_.batch();
  linalg_.Product({.trans_a = trans,
                   .count = batch.count,
                   .m = batch.rows,
                   .n = batch.cols,
                   .k = batch.rows,
                   .alpha = alpha},
                  {matrices, left_.bases->stride()}, {in, batch.stride}, out,
                  batch.stride);
}

void CudaRotation::TimesRight(Trans trans, float alpha, const float* matrices,
                              const float* in, float* out) {
  const cuda::MatrixBatch& batch = group_.batch();
  linalg_.Product({.trans_b = trans,
                   .count = batch.count,
                   .m = batch.rows,
                   .n = batch.cols,
                   .k = batch.cols,
                   .alpha = alpha},
                  {in, batch.stride}, {matrices, right_.bases->stride()}, out,
                  batch.stride);
}

std::vector<StateTensor<float>> CudaRotation::State(int64_t i,
                                                    StatePlace home) const {
  const Param& p = *group_.params()[static_cast<size_t>(i)];
  const int64_t at = i * group_.batch().stride;
  const Parts parts = Divide(home);
  std::vector<StateTensor<float>> state = {
      {p.name + ".m", p.layer, p.rows, p.cols, parts.m + at},
      {p.name + ".v", p.layer, p.rows, p.cols, parts.v + at}};
  const std::pair<const Side*, int> sides[] = {{&left_, 0}, {&right_, 1}};
  for (const auto& [side, right] : sides) {
    if (!side->rotated || FromMoment()) continue;
    const CudaBases& bases = *side->bases;
    state.push_back({p.name + (right ? ".R" : ".L"), p.layer, bases.n(),
                     bases.n(), parts.covariances[right] + i * bases.stride()});
  }
  for (const auto& [side, right] : sides) {
    if (!side->rotated) continue;
    const CudaBases& bases = *side->bases;
    std::byte* const stored = parts.bases[right];
    state.push_back({p.name + (right ? ".V" : ".U"), p.layer, bases.n(),
                     bases.n(), bases.WholeOf(i, stored),
                     bases.HalfOf(i, stored)});
  }
  state.push_back({p.name + ".health", p.layer, 1, 2, health_.data() + 2 * i});
  return state;
}

}  // namespace gimbal::worker
