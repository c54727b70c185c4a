// The equally large matrices of a stage that one rule updates as a batch.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/compute/cuda/matrices.h"
#include "worker/compute/cuda/memory.h"
#include "worker/model/parameter_table.h"

namespace gimbal::worker {

class MatrixGroup {
 public:
  // Not empty; what it points to must outlive it.
  explicit MatrixGroup(std::vector<const Param*> params)
      : params_(std::move(params)), offsets_(count()) {
    std::vector<int64_t> offsets;
    bool packs = first().size() % 4 == 0;
    for (const Param* p : params_) {
      offsets.push_back(p->offset);
      packs = packs && p->offset % 4 == 0;
    }
    GIMBAL_CUDA_CHECK(cudaMemcpy(offsets_.data(), offsets.data(),
                                 offsets_.bytes(), cudaMemcpyHostToDevice));
    batch_ = {.count = count(),
              .rows = first().rows,
              .cols = first().cols,
              .stride = compute::cuda::BatchStride(first().size()),
              .offsets = offsets_.data(),
              .packs = packs};
  }

  const std::vector<const Param*>& params() const { return params_; }
  const Param& first() const { return *params_.front(); }
  int64_t count() const { return static_cast<int64_t>(params_.size()); }
  const compute::cuda::MatrixBatch& batch() const { return batch_; }

 private:
  std::vector<const Param*> params_;
  compute::cuda::DeviceBuffer<int64_t> offsets_;
  compute::cuda::MatrixBatch batch_;
};

}  // namespace gimbal::worker
