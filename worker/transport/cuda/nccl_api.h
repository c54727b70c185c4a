// The functions of NCCL that channels call, found at run time: a machine with
// one GPU needs no NCCL, and a program none to start.
#pragma once

#include <nccl.h>

#include <string>

namespace gimbal::worker {

struct NcclApi {
  decltype(&::ncclGetVersion) GetVersion = nullptr;
  decltype(&::ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&::ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&::ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&::ncclCommAbort) CommAbort = nullptr;
  decltype(&::ncclSend) Send = nullptr;
  decltype(&::ncclRecv) Recv = nullptr;
  decltype(&::ncclGetErrorString) GetErrorString = nullptr;
  decltype(&::ncclGetLastError) GetLastError = nullptr;
};

// Empty when all were found, else what is missing.
std::string LoadNcclApi(NcclApi* api);

}  // namespace gimbal::worker
