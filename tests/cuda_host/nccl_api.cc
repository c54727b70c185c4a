// The look-alike stands in the program itself: nothing is looked for.
#include "worker/transport/cuda/nccl_api.h"

namespace gimbal::worker {

std::string LoadNcclApi(NcclApi* api) {
  *api = {ncclGetVersion,
          ncclGetUniqueId,
          ncclCommInitRankConfig,
          ncclCommGetAsyncError,
          ncclCommAbort,
          ncclSend,
          ncclRecv,
          ncclGetErrorString,
          ncclGetLastError};
  return "";
}

}  // namespace gimbal::worker
