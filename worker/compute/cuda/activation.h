// Activation of the MLP, as worker/compute/activation.h. n elements;
// asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/model/model_spec.h"

namespace gimbal::compute::cuda {

// Bytes: 8 n. FLOP: about 20 n for the GELUs.
void ActivationForward(cudaStream_t stream, worker::Activation function,
                       int64_t n, const float* x, float* y);

// Replaces x by y and dy by dx. Bytes: 16 n. FLOP: about 35 n for the GELUs.
void ActivationBackward(cudaStream_t stream, worker::Activation function,
                        int64_t n, float* x_to_y, float* dy_to_dx);

}  // namespace gimbal::compute::cuda
