// Boundary tensors on their way from stage to stage: the forms and bits of
// worker/compute/wire.h. Asynchronous on the stream; fp32 is a copy.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "worker/compute/wire.h"

namespace gimbal::compute::cuda {

// Bytes: those of both forms, in int8 x is read twice. FLOP: rows cols in int8.
void EncodeWire(cudaStream_t stream, WireFormat format, int64_t rows,
                int64_t cols, const float* x, std::byte* wire);

// Bytes: those of both forms. FLOP: rows cols in int8.
void DecodeWire(cudaStream_t stream, WireFormat format, int64_t rows,
                int64_t cols, const std::byte* wire, float* x);

}  // namespace gimbal::compute::cuda
