// Types of what ops read and write. A number is held in fp32 wherever something
// is computed with it; what is stored as bf16 was rounded once, to nearest
// even.
//
// Ops say what they move in bytes of an element, E: 4 in fp32, 2 in bf16.
#pragma once

#include <cuda_bf16.h>

namespace gimbal::compute::cuda {

using Bf16 = __nv_bfloat16;

}  // namespace gimbal::compute::cuda
