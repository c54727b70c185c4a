// The functions of include/nccl.h.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/memory.h"
#include "tests/cuda_host/nccl_end.h"
#include "tests/cuda_host/runtime.h"

struct ncclComm {
  std::shared_ptr<gimbal::cuda_host::NcclEnd> end;
  std::string shown_error;
};

namespace gimbal::cuda_host {
namespace {

// Of the ids that were made here and that no rank 0 has used yet.
std::mutex listeners_mutex;
std::map<std::string, int> listeners;

int TakeListener(const std::string& name) {
  std::lock_guard lock(listeners_mutex);
  const auto found = listeners.find(name);
  if (found == listeners.end()) return -1;
  const int listener = found->second;
  listeners.erase(found);
  return listener;
}

// Stands in its stream until both ends have been at it.
class Exchange final : public Operation {
 public:
  Exchange(std::shared_ptr<NcclEnd> end,
           std::shared_ptr<NcclEnd::Transfer> transfer)
      : end_(std::move(end)), transfer_(std::move(transfer)) {}

  bool Ready() const override { return !posted_ || transfer_->done; }
  bool Step(Random& /*random*/) override {
    if (posted_) return true;
    posted_ = true;
    end_->Post(transfer_);
    return false;
  }

 private:
  const std::shared_ptr<NcclEnd> end_;
  const std::shared_ptr<NcclEnd::Transfer> transfer_;
  bool posted_ = false;
};

ncclResult_t Enqueue(void* data, size_t count, ncclDataType_t type, int peer,
                     ncclComm_t comm, cudaStream_t stream, bool sends) {
  const size_t bytes = count * (type == ncclUint8 ? 1 : 4);
  if (comm == nullptr || peer != 1 - comm->end->rank() ||
      !Memory::Get().IsDevice(data, bytes)) {
    return ncclInvalidArgument;
  }
  if (comm->end->state() != ncclSuccess) return ncclInvalidUsage;
  const auto end = comm->end;
  const cudaError_t error = Device::Get().Enqueue(stream, [=] {
    auto transfer = std::make_shared<NcclEnd::Transfer>();
    transfer->data = static_cast<std::byte*>(data);
    transfer->bytes = bytes;
    transfer->sends = sends;
    return std::make_unique<Exchange>(end, std::move(transfer));
  });
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace
}  // namespace gimbal::cuda_host

using namespace gimbal::cuda_host;

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  static std::atomic<int> made = 0;
  *uniqueId = {};
  const int size =
      std::snprintf(uniqueId->internal, sizeof uniqueId->internal,
                    "gimbal-nccl-%d-%d", static_cast<int>(getpid()), ++made);
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path + 1, uniqueId->internal,
              static_cast<size_t>(size));
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1) +
      static_cast<socklen_t>(size);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listener, 1) != 0) {
    close(listener);
    return ncclSystemError;
  }
  std::lock_guard lock(listeners_mutex);
  listeners[uniqueId->internal] = listener;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks,
                                    ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (nranks != 2 || rank < 0 || rank > 1 || config == nullptr ||
      config->size != sizeof *config || config->magic != 0xcafebeef) {
    return ncclInvalidArgument;
  }
  // The blocking kind is not here.
  if (config->blocking != 0) return ncclInvalidUsage;
  const int listener = rank == 0 ? TakeListener(commId.internal) : -1;
  if (rank == 0 && listener < 0) return ncclInvalidArgument;
  *comm = new ncclComm{
      .end = std::make_shared<NcclEnd>(rank, commId.internal, listener,
                                       PhysicalDevice(CurrentDevice()))};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  if (comm == nullptr) return ncclInvalidArgument;
  *asyncError = comm->end->state();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (TakeNcclFault("abort")) {
    for (;;) pause();
  }
  comm->end->Abort();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* sendbuff, size_t count,
                      ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Enqueue(const_cast<void*>(sendbuff), count, datatype, peer, comm,
                 stream, /*sends=*/true);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(recvbuff, count, datatype, peer, comm, stream,
                 /*sends=*/false);
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr) return "";
  comm->shown_error = comm->end->last_error();
  return comm->shown_error.c_str();
}
