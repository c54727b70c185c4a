// What a stage on a device keeps of microbatches, T being the type of
// activations: float, or one of two bytes for bf16. Statistics are fp32. Free
// of CUDA, so that memory is planned where there is none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "worker/compute/cuda/scratch.h"
#include "worker/model/block.h"
#include "worker/model/head.h"
#include "worker/model/scratch.h"

namespace gimbal::worker {

// From a microbatch's forward to its backward.
template <typename T>
struct CudaActivations {
  static CudaActivations Take(const StageSpec& spec,
                              compute::Carver<float>& carver) {
    CudaActivations act;
    for (int i = 0; i < spec.blocks; ++i) {
      act.blocks.push_back(BlockActivations<T, float>::Take(spec, carver));
    }
    act.output = carver.template Take<T>(Rows(spec) * spec.model.hidden);
    if (spec.last) act.head = HeadActivations<T, float>::Take(spec, carver);
    return act;
  }
  // Elements of fp32 that Take takes.
  static int64_t Size(const StageSpec& spec) {
    compute::Carver<float> counter(nullptr);
    Take(spec, counter);
    return counter.used();
  }
  T* input() const { return blocks.empty() ? output : blocks[0].x; }

  std::vector<BlockActivations<T, float>> blocks;
  T* output = nullptr;             // [N, C]
  HeadActivations<T, float> head;  // `lse`: the rows' losses
};

// Shared by all microbatches, one after the other.
template <typename T>
struct CudaWork {
  static CudaWork Take(const StageSpec& spec, compute::Carver<float>& carver) {
    namespace cuda = compute::cuda;
    const int64_t n = Rows(spec), c = spec.model.hidden;
    const int64_t wide = std::max<int64_t>(3 * c, spec.model.mlp_hidden);
    const int64_t widest =
        std::max<int64_t>(wide, spec.last ? spec.model.vocab : 0);
    CudaWork work;
    work.wide = carver.template Take<T>(n * wide);
    work.narrow = carver.template Take<T>(n * c);
    work.sums = carver.Take(
        std::max({cuda::LayerNormScratch(c), cuda::ColumnSumScratch(widest),
                  cuda::AttentionBackwardScratch(HeadsOf(spec))}));
    return work;
  }
  static int64_t Size(const StageSpec& spec) {
    compute::Carver<float> counter(nullptr);
    Take(spec, counter);
    return counter.used();
  }

  T* wide = nullptr;      // [N, max(3C, mlp_hidden)]
  T* narrow = nullptr;    // [N, C]
  float* sums = nullptr;  // partial sums of the reductions
};

// Bytes of a slot's values: what has to be kept of a microbatch to run its
// backward in another process.
template <typename T>
int64_t CudaValueBytes(const StageSpec& spec) {
  return CudaActivations<T>::Size(spec) * 4;
}

// Of token ids: those of the microbatch and where each occurs, at the first
// stage; targets at the last.
inline int64_t CudaTokenCount(const StageSpec& spec) {
  return spec.first ? 4 * Rows(spec) + 1 : 0;
}
inline int64_t CudaTargetCount(const StageSpec& spec) {
  return spec.last ? Rows(spec) : 0;
}

// Bytes of all that a stage keeps of microbatches, boundary tensors on their
// way included, which travel as fp32.
template <typename T>
int64_t CudaActivationBytes(const StageSpec& spec, int slots) {
  const int64_t boundary = Rows(spec) * spec.model.hidden;
  const int64_t slot = CudaValueBytes<T>(spec) +
                       4 * (CudaTokenCount(spec) + CudaTargetCount(spec));
  // What comes, what goes unless it is fp32 already, and a gradient.
  const int64_t ways = sizeof(T) < 4 ? 2 : 1;
  return slots * slot + CudaWork<T>::Size(spec) * 4 + boundary * 4 * ways +
         boundary * static_cast<int64_t>(sizeof(T));
}

}  // namespace gimbal::worker
