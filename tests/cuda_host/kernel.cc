#include "tests/cuda_host/kernel.h"

#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "tests/cuda_host/block.h"
#include "tests/cuda_host/device.h"
#include "tests/cuda_host/include/cuda_runtime.h"
#include "tests/cuda_host/symbols.h"

namespace gimbal::cuda_host {
namespace {

constexpr size_t kDefaultSharedBytes = 48 << 10;
constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kBlocksPerStep = 64;

std::mutex attributes_mutex;
std::map<const void*, size_t> shared_limit;

size_t SharedLimit(const void* kernel) {
  std::lock_guard lock(attributes_mutex);
  const auto found = shared_limit.find(kernel);
  return found == shared_limit.end() ? kDefaultSharedBytes : found->second;
}

class Kernel : public Operation {
 public:
  explicit Kernel(std::shared_ptr<const KernelLaunch> launch)
      : launch_(std::move(launch)),
        symbols_(SymbolsOf(launch_->kernel)),
        blocks_(uint64_t{launch_->grid.x} * launch_->grid.y * launch_->grid.z) {
  }

  bool Step(Random& random) override {
    if (done_ == 0) DrawOrder(random);
    static BlockRunner runner(random);  // The device's thread has one Random.
    for (uint32_t n = 1 + random.Below(kBlocksPerStep); n > 0; --n) {
      const uint64_t block = (offset_ + done_ * stride_) % blocks_;
      const dim3& grid = launch_->grid;
      const uint3 index = {static_cast<uint32_t>(block % grid.x),
                           static_cast<uint32_t>(block / grid.x % grid.y),
                           static_cast<uint32_t>(block / grid.x / grid.y)};
      error_ = runner.Run(grid, launch_->block, index, launch_->shared_bytes,
                          launch_->thread, symbols_.shared);
      if (!error_.empty()) error_ = symbols_.name + ", " + error_;
      if (!error_.empty() || ++done_ == blocks_) return true;
    }
    return false;
  }

  std::string Error() const override { return error_; }

 private:
  // A stride without a common divisor meets every block once.
  void DrawOrder(Random& random) {
    const auto below = static_cast<uint32_t>(blocks_);
    offset_ = random.Below(below);
    do {
      stride_ = 1 + random.Below(below);
    } while (std::gcd(stride_, blocks_) != 1);
  }

  const std::shared_ptr<const KernelLaunch> launch_;
  const KernelSymbols& symbols_;
  const uint64_t blocks_;
  uint64_t done_ = 0;
  uint64_t offset_ = 0;
  uint64_t stride_ = 1;
  std::string error_;
};

}  // namespace

MakeOperation LaunchOperation(std::shared_ptr<const KernelLaunch> launch) {
  return
      [launch = std::move(launch)] { return std::make_unique<Kernel>(launch); };
}

cudaError_t CheckLaunch(const KernelLaunch& launch) {
  const dim3& grid = launch.grid;
  const dim3& block = launch.block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff ||
      grid.y > 65535 || grid.z > 65535 || threads == 0 ||
      threads > kMaxThreads || block.z > 64) {
    return cudaErrorInvalidConfiguration;
  }
  // Orders are drawn among 2^32.
  if (uint64_t{grid.x} * grid.y * grid.z > 0xffffffff) {
    return cudaErrorNotSupported;
  }
  return launch.shared_bytes > SharedLimit(launch.kernel)
             ? cudaErrorInvalidValue
             : cudaSuccess;
}

cudaError_t LaunchKernel(const cudaLaunchConfig_t* config, const void* kernel,
                         std::function<void()> thread) {
  auto launch = std::make_shared<KernelLaunch>();
  launch->grid = config->gridDim;
  launch->block = config->blockDim;
  launch->shared_bytes = config->dynamicSmemBytes;
  launch->kernel = kernel;
  launch->thread = std::move(thread);
  if (config->numAttrs != 0) return Remember(cudaErrorNotSupported);
  const cudaError_t error = CheckLaunch(*launch);
  if (error != cudaSuccess) return Remember(error);
  return Remember(
      Device::Get().Enqueue(config->stream, LaunchOperation(launch)));
}

}  // namespace gimbal::cuda_host

using namespace gimbal::cuda_host;

cudaError_t cudaFuncSetAttribute(const void* func, cudaFuncAttribute attr,
                                 int value) {
  if (attr == cudaFuncAttributePreferredSharedMemoryCarveout) {
    return cudaSuccess;
  }
  if (value < 0 || static_cast<size_t>(value) > kMaxSharedBytes) {
    return Remember(cudaErrorInvalidValue);
  }
  std::lock_guard lock(attributes_mutex);
  shared_limit[func] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attr, const void* func) {
  *attr = {kMaxThreads, static_cast<int>(SharedLimit(func))};
  return cudaSuccess;
}
