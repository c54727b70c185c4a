// Fused softmax and cross-entropy, as worker/compute/cross_entropy.h, forward
// and backward at once: probabilities are never stored. Asynchronous on the
// stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gimbal::compute::cuda {

// Writes each row's loss and replaces the logits by the gradient of scale * sum
// of losses. A block per row, which is read twice, the second time from the
// cache. Bytes: 8 rows vocab. FLOP: 8 rows vocab.
void CrossEntropy(cudaStream_t stream, int64_t rows, int64_t vocab, float scale,
                  const int32_t* targets, float* logits_to_gradient,
                  float* losses);

}  // namespace gimbal::compute::cuda
