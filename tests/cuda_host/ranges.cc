#include "tests/cuda_host/ranges.h"

#include <mutex>
#include <utility>

#include "tests/cuda_host/include/nvtx3/nvToolsExt.h"

namespace gimbal::cuda_host {
namespace {

std::mutex mutex;
// Guarded by mutex:
std::map<std::string, int64_t> entered;
int64_t open = 0;

}  // namespace

std::map<std::string, int64_t> TakeRanges() {
  std::lock_guard lock(mutex);
  return std::exchange(entered, {});
}

int64_t OpenRanges() {
  std::lock_guard lock(mutex);
  return open;
}

}  // namespace gimbal::cuda_host

using namespace gimbal::cuda_host;

int nvtxRangePushA(const char* message) {
  std::lock_guard lock(mutex);
  ++entered[message];
  return static_cast<int>(open++);
}

int nvtxRangePop(void) {
  std::lock_guard lock(mutex);
  return static_cast<int>(--open);
}
