// Fused softmax and cross-entropy, as worker/compute/cross_entropy.h, forward
// and backward at once: probabilities are never stored. Logits and their
// gradient are float or Bf16, losses fp32. Asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/element.h"

namespace gimbal::compute::cuda {

// Writes each row's loss and replaces the logits by the gradient of scale * sum
// of losses. A block per row, which is read twice, the second time from the
// cache. Bytes: 2 E rows vocab. FLOP: 8 rows vocab.
template <typename T>
void CrossEntropy(cudaStream_t stream, int64_t rows, int64_t vocab, float scale,
                  const int32_t* targets, T* logits_to_gradient, float* losses);

}  // namespace gimbal::compute::cuda
