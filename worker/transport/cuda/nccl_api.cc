#include "worker/transport/cuda/nccl_api.h"

#include <dlfcn.h>

namespace gimbal::worker {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace

std::string LoadNcclApi(NcclApi* api) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::string("no NCCL: ") + dlerror();
  const bool all =
      Find(library, "ncclGetVersion", &api->GetVersion) &&
      Find(library, "ncclGetUniqueId", &api->GetUniqueId) &&
      Find(library, "ncclCommInitRankConfig", &api->CommInitRankConfig) &&
      Find(library, "ncclCommGetAsyncError", &api->CommGetAsyncError) &&
      Find(library, "ncclCommAbort", &api->CommAbort) &&
      Find(library, "ncclSend", &api->Send) &&
      Find(library, "ncclRecv", &api->Recv) &&
      Find(library, "ncclGetErrorString", &api->GetErrorString) &&
      Find(library, "ncclGetLastError", &api->GetLastError);
  return all ? "" : std::string(kLibrary) + " is too old: " + dlerror();
}

}  // namespace gimbal::worker
