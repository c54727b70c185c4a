// Compiled with the toolkit's headers, without this layer's.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
// nccl.h would add the C++ overloads of that header, whose addresses are
// ambiguous.
#define __CUDA_RUNTIME_H__
#include <nccl.h>

#define GIMBAL_SIGNATURES ToolkitSignatures
#include "tests/cuda_host/test/signatures.inc"
