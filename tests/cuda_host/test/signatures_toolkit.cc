// Compiled with the toolkit's headers, without this layer's.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cusolverDn.h>
#include <nccl.h>

#define GIMBAL_SIGNATURES ToolkitSignatures
#include "tests/cuda_host/test/signatures.inc"
