// Ranges of NVTX, counted (tests/cuda_host/ranges.h).
#pragma once

extern "C" {
int nvtxRangePushA(const char* message);
int nvtxRangePop(void);
}
