// Factorisations of row-major matrices by cuSOLVER, as worker/optim/qr.h and
// worker/optim/lapack.h have them. cuSOLVER is column-major, so what it calls
// columns are rows here. One matrix at a time; several solvers in streams of
// their own fill a device.
//
// Not thread-safe. Throws CudaError.
#pragma once

#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <cstdint>

#include "worker/compute/cuda/memory.h"

namespace gimbal::compute::cuda {

class Solver {
 public:
  Solver();
  ~Solver();
  Solver(const Solver&) = delete;

  cudaStream_t stream() const { return stream_.get(); }
  // What is enqueued from now on runs after what `event` stands for.
  void After(const Event& event) { event.Delay(stream_); }
  // Delays `stream` until all that has been enqueued is done.
  void Join(cudaStream_t stream);

  // Takes the memory that OrthonormalizeRows needs up to a side of n.
  void Reserve(int64_t n);

  // Replaces the first `count` rows of a [n, n] by an orthonormal basis of
  // theirs and the others by rows that complete it.
  // Bytes: about 8 n^2 per 32 rows. FLOP: 8/3 n^3 for count = n.
  void OrthonormalizeRows(int64_t n, int64_t count, float* a);

  // The two below take memory for the call and wait for its end. *info becomes
  // 0, or else the iteration has not converged and the results are worthless.

  // Replaces a [n, n], of which the lower triangle counts, by its eigenvectors
  // as rows, by increasing eigenvalue. FLOP: about 9 n^3.
  void EigenvectorRows(int64_t n, float* a, int* info);
  // Full singular value decomposition of a [rows, cols], which is lost: rows of
  // `left` [rows, rows] and `right` [cols, cols] become its singular vectors,
  // by decreasing singular value. FLOP: about 22 l^3, l the larger side.
  void SingularVectorRows(int64_t rows, int64_t cols, float* a, float* left,
                          float* right, int* info);

 private:
  Stream stream_;
  Event done_;
  cusolverDnHandle_t handle_ = nullptr;
  DeviceBuffer<float> tau_, work_;
  DeviceBuffer<int> info_;
};

}  // namespace gimbal::compute::cuda
