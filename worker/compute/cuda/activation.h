// Activation of the MLP, as worker/compute/activation.h. n elements of float or
// Bf16; asynchronous on the stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "worker/compute/cuda/element.h"
#include "worker/model/model_spec.h"

namespace gimbal::compute::cuda {

// Bytes: 2 E n. FLOP: about 20 n for the GELUs.
template <typename T>
void ActivationForward(cudaStream_t stream, worker::Activation function,
                       int64_t n, const T* x, T* y);

// Replaces x by y and dy by dx. Bytes: 4 E n. FLOP: about 35 n for the GELUs.
template <typename T>
void ActivationBackward(cudaStream_t stream, worker::Activation function,
                        int64_t n, T* x_to_y, T* dy_to_dx);

}  // namespace gimbal::compute::cuda
