// Types of elements that the libraries here compute with.
#pragma once

typedef enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_16BF = 14,
} cudaDataType;
