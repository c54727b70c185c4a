#include "worker/pipeline/cuda/cuda_muon.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "worker/compute/cuda/reduce.h"
#include "worker/compute/cuda/update.h"
#include "worker/optim/adam_rule.h"
#include "worker/optim/adamw.h"
#include "worker/optim/muon.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;
using compute::Trans;

}  // namespace

CudaMuon::CudaMuon(std::vector<const Param*> params, const OptimizerSpec& spec,
                   CudaLinalg& linalg)
    : group_(std::move(params)),
      spec_(spec),
      linalg_(linalg),
      side_(std::min(group_.batch().rows, group_.batch().cols)),
      side_stride_(cuda::BatchStride(side_ * side_)),
      o_(group_.batch().elements()),
      ranges_(2 * group_.count()),
      squares_((1 + cuda::kReduceScratch) * group_.count()) {
  std::vector<int64_t> ranges;
  for (const int64_t size : {int64_t{0}, group_.batch().size()}) {
    for (int64_t i = 0; i < group_.count(); ++i) {
      ranges.push_back(i * group_.batch().stride + size);
    }
  }
  GIMBAL_CUDA_CHECK(cudaMemcpy(ranges_.data(), ranges.data(), ranges_.bytes(),
                               cudaMemcpyHostToDevice));
}

void CudaMuon::Use(StatePlace place) {
  m_ = reinterpret_cast<float*>(place.first);
}

double CudaMuon::Scale() const {
  return 0.2 * std::sqrt(static_cast<double>(
                   std::max(group_.batch().rows, group_.batch().cols)));
}

// The product besides, or two [side, side].
int64_t CudaMuon::scratch_size() const {
  return group_.batch().elements() + 2 * group_.count() * side_stride_;
}

void CudaMuon::Step(const StepContext<float>& context, const float* old_weights,
                    const float* grads, float* new_weights, float* scratch) {
  const cuda::MatrixBatch& batch = group_.batch();
  const cudaStream_t stream = linalg_.stream();
  if (MomentsReset(spec_, context.update)) {
    GIMBAL_CUDA_CHECK(cudaMemsetAsync(
        m_, 0, static_cast<size_t>(batch.elements()) * 4, stream));
  }
  cuda::GatherMatrices(stream, batch, grads, scratch);
  cuda::Momentum(stream, batch.elements(), spec_.muon.momentum, context.scale,
                 spec_.nesterov, scratch, m_, o_.data());
  NewtonSchulz(scratch);
  const double lr = context.lr * LrFactor(context, group_.first());
  cuda::ApplyMatrices(stream, batch, 1 - lr * spec_.weight_decay, lr * Scale(),
                      old_weights, o_.data(), new_weights);
}

void CudaMuon::NewtonSchulz(float* scratch) {
  const cuda::MatrixBatch& batch = group_.batch();
  const cudaStream_t stream = linalg_.stream();
  cuda::SquareSums(stream, batch.count, ranges_.data(),
                   ranges_.data() + batch.count, o_.data(), squares_.data(),
                   squares_.data() + batch.count);
  cuda::Normalize(stream, batch, squares_.data(), o_.data());
  float* x = o_.data();
  float* product = scratch;
  float* gram = product + batch.elements();
  float* poly = gram + batch.count * side_stride_;
  const bool wide = batch.rows <= batch.cols;
  const CudaLinalg::Shape square{
      .count = batch.count, .m = side_, .n = side_, .k = side_};
  for (int step = 0; step < spec_.muon.iterations; ++step) {
    CudaLinalg::Shape of_gram = square;  // X X^T, or X^T X
    of_gram.k = std::max(batch.rows, batch.cols);
    (wide ? of_gram.trans_b : of_gram.trans_a) = Trans::kYes;
    linalg_.Product(of_gram, {x, batch.stride}, {x, batch.stride}, gram,
                    side_stride_);
    CudaLinalg::Shape of_poly = square;  // b A + c A A
    of_poly.alpha = static_cast<float>(kNewtonSchulzC);
    of_poly.beta = static_cast<float>(kNewtonSchulzB);
    linalg_.Product(of_poly, {gram, side_stride_}, {gram, side_stride_}, poly,
                    side_stride_, gram);
    const CudaLinalg::Shape of_x{.count = batch.count,
                                 .m = batch.rows,
                                 .n = batch.cols,
                                 .k = side_,
                                 .beta = static_cast<float>(kNewtonSchulzA)};
    const BatchOperand left{poly, side_stride_}, right{x, batch.stride};
    linalg_.Product(of_x, wide ? left : right, wide ? right : left, product,
                    batch.stride, x);
    std::swap(x, product);
  }
  if (x == o_.data()) return;
  GIMBAL_CUDA_CHECK(cudaMemcpyAsync(o_.data(), x, o_.bytes(),
                                    cudaMemcpyDeviceToDevice, stream));
}

void CudaMuon::Predict(const PredictContext& context, const float* weights,
                       float* predicted, float* /*scratch*/) {
  const double lr =
      std::accumulate(context.lrs.begin(), context.lrs.end(), 0.0) *
      LrFactor(context, group_.first());
  cuda::ApplyMatrices(linalg_.stream(), group_.batch(), 1, lr * Scale(),
                      weights, o_.data(), predicted);
}

std::vector<StateTensor<float>> CudaMuon::State(int64_t i,
                                                StatePlace home) const {
  const Param& p = *group_.params()[static_cast<size_t>(i)];
  return {{p.name + ".m", p.layer, p.rows, p.cols,
           reinterpret_cast<float*>(home.first) + i * group_.batch().stride}};
}

}  // namespace gimbal::worker
