#include "worker/compute/cuda/solver.h"

#include <algorithm>
#include <string>

#include "worker/compute/cuda/basis.h"

namespace gimbal::compute::cuda {
namespace {

void CheckSolver(cusolverStatus_t status, const char* what, int line) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  if (status == CUSOLVER_STATUS_ALLOC_FAILED) throw std::bad_alloc();
  Fail(what, __FILE__, line, "cuSOLVER status " + std::to_string(status));
}
#define CHECK_SOLVER(call) CheckSolver((call), #call, __LINE__)

}  // namespace

Solver::Solver() : info_(1) {
  CHECK_SOLVER(cusolverDnCreate(&handle_));
  CHECK_SOLVER(cusolverDnSetStream(handle_, stream_.get()));
}

Solver::~Solver() {
  cudaStreamSynchronize(stream_.get());
  cusolverDnDestroy(handle_);
}

void Solver::Join(cudaStream_t stream) {
  done_.Record(stream_);
  GIMBAL_CUDA_CHECK(cudaStreamWaitEvent(stream, done_.get(), 0));
}

void Solver::Reserve(int64_t n) {
  if (n <= tau_.size()) return;
  const int side = static_cast<int>(n);
  int factor = 0, form = 0;
  CHECK_SOLVER(
      cusolverDnSgeqrf_bufferSize(handle_, side, side, nullptr, side, &factor));
  CHECK_SOLVER(cusolverDnSorgqr_bufferSize(handle_, side, side, side, nullptr,
                                           side, nullptr, &form));
  tau_ = DeviceBuffer<float>(n);
  work_ = DeviceBuffer<float>(std::max(factor, form));
}

void Solver::OrthonormalizeRows(int64_t n, int64_t count, float* a) {
  const int side = static_cast<int>(n), columns = static_cast<int>(count);
  const int size = static_cast<int>(work_.size());
  CHECK_SOLVER(cusolverDnSgeqrf(handle_, side, columns, a, side, tau_.data(),
                                work_.data(), size, info_.data()));
  CHECK_SOLVER(cusolverDnSorgqr(handle_, side, side, columns, a, side,
                                tau_.data(), work_.data(), size, info_.data()));
}

void Solver::EigenvectorRows(int64_t n, float* a, int* info) {
  const int side = static_cast<int>(n);
  int size = 0;
  DeviceBuffer<float> values(n);
  CHECK_SOLVER(cusolverDnSsyevd_bufferSize(handle_, CUSOLVER_EIG_MODE_VECTOR,
                                           CUBLAS_FILL_MODE_UPPER, side, a,
                                           side, values.data(), &size));
  DeviceBuffer<float> work(size);
  // Our lower triangle is the upper one of the column-major view.
  CHECK_SOLVER(cusolverDnSsyevd(handle_, CUSOLVER_EIG_MODE_VECTOR,
                                CUBLAS_FILL_MODE_UPPER, side, a, side,
                                values.data(), work.data(), size, info));
  stream_.Wait();
}

// cuSOLVER wants no fewer rows than columns: the longer side's vectors come
// first. It sees a^T when that is enough, else it gets it.
void Solver::SingularVectorRows(int64_t rows, int64_t cols, float* a,
                                float* left, float* right, int* info) {
  const int64_t longer = std::max(rows, cols), shorter = std::min(rows, cols);
  const int m = static_cast<int>(longer), n = static_cast<int>(shorter);
  int size = 0;
  CHECK_SOLVER(cusolverDnSgesvd_bufferSize(handle_, m, n, &size));
  DeviceBuffer<float> values(shorter), work(size), rest(shorter),
      transposed(rows > cols ? rows * cols : 0), vectors(shorter * shorter);
  float* matrix = a;
  if (rows > cols) {
    matrix = transposed.data();
    Transpose(stream_.get(), rows, cols, a, matrix);
  }
  CHECK_SOLVER(cusolverDnSgesvd(handle_, 'A', 'A', m, n, matrix, m,
                                values.data(), rows > cols ? left : right, m,
                                vectors.data(), n, work.data(), size,
                                rest.data(), info));
  Transpose(stream_.get(), shorter, shorter, vectors.data(),
            rows > cols ? right : left);
  stream_.Wait();
}

}  // namespace gimbal::compute::cuda
