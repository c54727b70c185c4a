#include "worker/pipeline/cuda/cuda_bases.h"

#include <algorithm>

#include "common/base/random.h"
#include "worker/compute/cuda/basis.h"
#include "worker/compute/cuda/reduce.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;
using compute::Trans;
using cuda::BatchStride;

constexpr uint16_t kHalfOne = 0x3c00;             // 1 in fp16
constexpr uint64_t kProbeSeed = 0x6f7274686fULL;  // as OrthogonalityError's

template <typename T>
void Upload(const std::vector<T>& host, cuda::DeviceBuffer<T>& to) {
  GIMBAL_CUDA_CHECK(
      cudaMemcpy(to.data(), host.data(), to.bytes(), cudaMemcpyHostToDevice));
}

void CopyOnDevice(cudaStream_t stream, int64_t n, const float* from,
                  float* to) {
  GIMBAL_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(n) * 4,
                                    cudaMemcpyDeviceToDevice, stream));
}

}  // namespace

CudaBases::CudaBases(CudaLinalg& linalg, int64_t count, int64_t n, bool half)
    : linalg_(linalg),
      count_(count),
      n_(n),
      stride_(BatchStride(n * n)),
      half_(half),
      keys_(count * n),
      probe_(n),
      ranges_(2 * count),
      norms_((1 + cuda::kReduceScratch) * count),
      errors_(count),
      finite_(count),
      failed_(count) {
  linalg.ReserveSolvers(n);
  std::vector<float> probe(static_cast<size_t>(n));
  for (size_t i = 0; i < probe.size(); ++i) {
    probe[i] = base::RandomBits(kProbeSeed, 0, i) & 1 ? 1.0f : -1.0f;
  }
  Upload(probe, probe_);
  std::vector<int64_t> ranges;
  for (int64_t i = 0; i < count; ++i) ranges.push_back(i * stride_);
  for (int64_t i = 0; i < count; ++i) ranges.push_back(i * stride_ + n * n);
  Upload(ranges, ranges_);
}

void CudaBases::Initialize(std::byte* stored) const {
  const auto identities = [&](auto one) {
    std::vector<decltype(one)> all(static_cast<size_t>(elements()));
    for (int64_t i = 0; i < count_ * n_; ++i) {
      all[static_cast<size_t>(i / n_ * stride_ + i % n_ * (n_ + 1))] = one;
    }
    GIMBAL_CUDA_CHECK(cudaMemcpy(stored, all.data(), all.size() * sizeof one,
                                 cudaMemcpyDefault));
  };
  if (half_) {
    identities(kHalfOne);
  } else {
    identities(1.0f);
  }
}

void CudaBases::Unpack(float* memory) {
  data_ = WholeOf(0, stored_);
  if (!half_) return;
  data_ = memory;
  cuda::FromHalf(linalg_.stream(), elements(), HalfOf(0, stored_), memory);
}

float* CudaBases::WholeOf(int64_t i, std::byte* stored) const {
  return half_ ? nullptr : reinterpret_cast<float*>(stored) + i * stride_;
}

uint16_t* CudaBases::HalfOf(int64_t i, std::byte* stored) const {
  return half_ ? reinterpret_cast<uint16_t*>(stored) + i * stride_ : nullptr;
}

void CudaBases::ColdStart(const float* statistics, float* scratch) {
  const cudaStream_t stream = linalg_.stream();
  cuda::FiniteFlags(stream, count_, n_, n_ + 1, stride_, statistics, finite());
  cuda::MirrorLower(stream, count_, n_, stride_, finite(), statistics, scratch);
  linalg_.Solve(count_, [&](cuda::Solver& solver, int64_t i) {
    solver.EigenvectorRows(n_, scratch + i * stride_, failed() + i);
  });
  Select(finite(), failed(), /*reversed=*/true, scratch);
}

void CudaBases::Refresh(const float* statistics, BatchOrder order,
                        float* health, float* scratch) {
  const cudaStream_t stream = linalg_.stream();
  float* whole = scratch;
  float* product = scratch + elements();
  cuda::FiniteFlags(stream, count_, n_, n_ + 1, stride_, statistics, finite());
  cuda::MirrorLower(stream, count_, n_, stride_, finite(), statistics, whole);
  linalg_.Product({.count = count_, .m = n_, .n = n_, .k = n_},
                  {data_, stride_}, {whole, stride_}, product, stride_);
  SquareNorms(whole);
  cuda::RowDots(stream, count_, n_, n_, stride_, data_, product, keys_.data());
  cuda::RankDescending(stream, count_, n_, finite(), keys_.data(), order.stride,
                       order.data);
  cuda::OffdiagonalRatios(stream, count_, n_, 1, n_, finite(), keys_.data(),
                          norms_.data(), health);
  float* next = whole;
  cuda::GatherRows(stream, count_, n_, n_, order.stride, order.data, stride_,
                   product, stride_, next);
  OrthonormalizeRows(n_, next);
  Select(finite(), nullptr, /*reversed=*/false, next);
}

void CudaBases::FromRows(const int* finite, int64_t k, BatchOperand rows,
                         BatchOrder order, float* scratch) {
  const cudaStream_t stream = linalg_.stream();
  cuda::RowDots(stream, count_, k, n_, rows.stride, rows.data, rows.data,
                keys_.data());
  cuda::RankDescending(stream, count_, k, finite, keys_.data(), order.stride,
                       order.data);
  cuda::GatherRows(stream, count_, k, n_, order.stride, order.data, rows.stride,
                   rows.data, stride_, scratch);
  OrthonormalizeRows(k, scratch);
  Select(finite, nullptr, /*reversed=*/false, scratch);
}

void CudaBases::Select(const int* finite, const int* failed, bool reversed,
                       const float* next) {
  cuda::SelectBases(linalg_.stream(), count_, n_, stride_, finite, failed,
                    reversed, next, data_);
}

void CudaBases::SquareNorms(const float* matrices) {
  cuda::SquareSums(linalg_.stream(), count_, ranges_.data(),
                   ranges_.data() + count_, matrices, norms_.data(),
                   norms_.data() + count_);
}

void CudaBases::OrthonormalizeRows(int64_t k, float* matrices) {
  linalg_.Solve(count_, [&](cuda::Solver& solver, int64_t i) {
    solver.OrthonormalizeRows(n_, k, matrices + i * stride_);
  });
}

std::vector<double> CudaBases::OrthogonalityErrors(float* scratch) {
  // The probe as a row: y = x Q^T, z = y Q for bases Q by rows.
  const int64_t distance = BatchStride(n_);
  float* y = scratch;
  float* z = scratch + count_ * distance;
  linalg_.Product(
      {.trans_b = Trans::kYes, .count = count_, .m = 1, .n = n_, .k = n_},
      {probe_.data(), 0}, {data_, stride_}, y, distance);
  linalg_.Product({.count = count_, .m = 1, .n = n_, .k = n_}, {y, distance},
                  {data_, stride_}, z, distance);
  cuda::ProbeErrors(linalg_.stream(), count_, n_, distance, z, probe_.data(),
                    errors_.data());
  std::vector<double> errors(static_cast<size_t>(count_));
  GIMBAL_CUDA_CHECK(cudaMemcpyAsync(errors.data(), errors_.data(),
                                    errors_.bytes(), cudaMemcpyDeviceToHost,
                                    linalg_.stream()));
  GIMBAL_CUDA_CHECK(cudaStreamSynchronize(linalg_.stream()));
  return errors;
}

void CudaBases::Settle(double limit, float* health, float* scratch) {
  std::vector<int64_t> worse;
  const std::vector<double> errors = OrthogonalityErrors(scratch);
  for (int64_t i = 0; i < count_; ++i) {
    if (errors[static_cast<size_t>(i)] > limit) worse.push_back(i);
  }
  if (!worse.empty()) {
    linalg_.Solve(static_cast<int64_t>(worse.size()), [&](cuda::Solver& solver,
                                                          int64_t i) {
      solver.OrthonormalizeRows(
          n_, n_, data_ + worse[static_cast<size_t>(i)] * stride_);
    });
  }
  if (half_) {
    uint16_t* const stored = HalfOf(0, stored_);
    cuda::ToHalf(linalg_.stream(), elements(), data_, stored);
    cuda::FromHalf(linalg_.stream(), elements(), stored, data_);
  }
  if (!worse.empty() || half_) OrthogonalityErrors(scratch);
  cuda::RaiseHealth(linalg_.stream(), count_, errors_.data(), health + 1);
}

int64_t PairScratchSize(const CudaBases& left, const CudaBases& right,
                        int64_t count) {
  const int64_t k = std::min(left.n(), right.n());
  const int64_t cold = count * BatchStride(left.n() * right.n()) +
                       left.elements() + right.elements();
  const int64_t warm =
      count * (BatchStride(k * left.n()) + BatchStride(k * right.n())) +
      std::max(left.elements(), right.elements());
  return std::max(cold, warm);
}

void ColdStartPair(CudaLinalg& linalg, int64_t count, BatchOperand moments,
                   CudaBases& left, CudaBases& right, float* scratch) {
  const cudaStream_t stream = linalg.stream();
  const int64_t rows = left.n(), cols = right.n(), stride = moments.stride;
  float* copy = scratch;
  float* new_left = copy + count * stride;
  float* new_right = new_left + left.elements();
  cuda::FiniteFlags(stream, count, rows * cols, 1, stride, moments.data,
                    left.finite());
  CopyOnDevice(stream, count * stride, moments.data, copy);
  cuda::ZeroUnlessFinite(stream, count, rows * cols, stride, left.finite(),
                         copy);
  linalg.Solve(count, [&](cuda::Solver& solver, int64_t i) {
    solver.SingularVectorRows(
        rows, cols, copy + i * stride, new_left + i * left.stride(),
        new_right + i * right.stride(), left.failed() + i);
  });
  left.Select(left.finite(), left.failed(), /*reversed=*/false, new_left);
  right.Select(left.finite(), left.failed(), /*reversed=*/false, new_right);
}

void RefreshPair(CudaLinalg& linalg, int64_t count, BatchOperand moments,
                 CudaBases& left, CudaBases& right, BatchOrder left_order,
                 BatchOrder right_order, float* scratch) {
  const int64_t rows = left.n(), cols = right.n(), k = std::min(rows, cols);
  const int64_t of_right_stride = BatchStride(k * rows);
  const int64_t of_left_stride = BatchStride(k * cols);
  float* of_right = scratch;                            // rows: M v_i
  float* of_left = of_right + count * of_right_stride;  // rows: M^T u_i
  float* next = of_left + count * of_left_stride;
  cuda::FiniteFlags(linalg.stream(), count, rows * cols, 1, moments.stride,
                    moments.data, left.finite());
  linalg.Product(
      {.trans_b = Trans::kYes, .count = count, .m = k, .n = rows, .k = cols},
      {right.data(), right.stride()}, moments, of_right, of_right_stride);
  linalg.Product({.count = count, .m = k, .n = cols, .k = rows},
                 {left.data(), left.stride()}, moments, of_left,
                 of_left_stride);
  left.FromRows(left.finite(), k, {of_right, of_right_stride}, right_order,
                next);
  right.FromRows(left.finite(), k, {of_left, of_left_stride}, left_order, next);
}

}  // namespace gimbal::worker
