// The bases of one side of a batch of matrices on a device, estimated as
// worker/optim/basis.h says, all matrices at once: products as strided batches,
// factorisations one by one on several streams. A matrix whose statistic is not
// finite keeps its basis.
//
// Everything happens in the stream of the CudaLinalg. Nothing but ColdStart
// allocates; scratch comes from the caller. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/compute/cuda/matrices.h"
#include "worker/pipeline/cuda/cuda_linalg.h"

namespace gimbal::worker {

// Where a basis vector was before a refresh, for each of a batch.
struct BatchOrder {
  int* data = nullptr;
  int64_t stride = 0;
};

class CudaBases {
 public:
  // `half`: stored in fp16. `linalg` must outlive it. The bases are stored
  // where Use says.
  CudaBases(CudaLinalg& linalg, int64_t count, int64_t n, bool half);

  int64_t n() const { return n_; }
  // From one matrix of the batch to the next.
  int64_t stride() const { return stride_; }
  int64_t elements() const { return count_ * stride_; }

  int64_t stored_bytes() const { return elements() * (half_ ? 2 : 4); }
  // Stores identities; memory of the device or the host.
  void Initialize(std::byte* stored) const;
  void Use(std::byte* stored) { stored_ = stored; }
  // Elements of memory that Unpack takes for bases in fp16.
  int64_t unpacked_size() const { return half_ ? elements() : 0; }
  // Makes data() fit for use: `memory` is where bases in fp16 are unpacked to.
  void Unpack(float* memory);
  float* data() const { return data_; }
  // What is stored of matrix i, one of the two.
  float* WholeOf(int64_t i, std::byte* stored) const;
  uint16_t* HalfOf(int64_t i, std::byte* stored) const;

  // Elements of scratch for everything below but FromRows.
  int64_t scratch_size() const { return 2 * elements(); }
  // From symmetric statistics, of which the lower triangles count.
  void ColdStart(const float* statistics, float* scratch);
  // `health` as .health of all matrices.
  void Refresh(const float* statistics, BatchOrder order, float* health,
               float* scratch);
  // From `rows` [k, n] per matrix, sorted by decreasing norm, and completed.
  // Scratch: elements().
  void FromRows(const int* finite, int64_t k, BatchOperand rows,
                BatchOrder order, float* scratch);
  // New bases where finite[b], identities where failed[b] besides.
  void Select(const int* finite, const int* failed, bool reversed,
              const float* next);

  // After new bases: orthonormalises once more what is worse than `limit`,
  // stores the bases, and writes how orthogonal they are. Waits for the device.
  void Settle(double limit, float* health, float* scratch);

  int* finite() const { return finite_.data(); }
  int* failed() const { return failed_.data(); }

 private:
  void SquareNorms(const float* matrices);
  void OrthonormalizeRows(int64_t k, float* matrices);
  // Of all bases, into errors_ as well.
  std::vector<double> OrthogonalityErrors(float* scratch);

  CudaLinalg& linalg_;
  const int64_t count_, n_, stride_;
  const bool half_;
  std::byte* stored_ = nullptr;
  float* data_ = nullptr;
  compute::cuda::DeviceBuffer<float> keys_, probe_;
  compute::cuda::DeviceBuffer<int64_t> ranges_;  // begins, then ends
  compute::cuda::DeviceBuffer<double> norms_, errors_;
  compute::cuda::DeviceBuffer<int> finite_, failed_;
};

// Both sides from the same matrices [left.n, right.n], as ColdStartPair and
// RefreshPair. Scratch: PairScratchSize.
int64_t PairScratchSize(const CudaBases& left, const CudaBases& right,
                        int64_t count);
void ColdStartPair(CudaLinalg& linalg, int64_t count, BatchOperand moments,
                   CudaBases& left, CudaBases& right, float* scratch);
void RefreshPair(CudaLinalg& linalg, int64_t count, BatchOperand moments,
                 CudaBases& left, CudaBases& right, BatchOrder left_order,
                 BatchOrder right_order, float* scratch);

}  // namespace gimbal::worker
