#include "worker/pipeline/cuda/plugin.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include "absl/strings/str_format.h"
#include "worker/pipeline/cuda/cuda_engine.h"
#include "worker/transport/cuda/link_memory.h"
#include "worker/transport/cuda/nccl_channels.h"

namespace gimbal::worker {
namespace {

// As nvidia-smi writes it.
std::string IdentityOf(const cudaDeviceProp& device) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    absl::StrAppendFormat(
        &text, "%s%02x", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
        static_cast<unsigned char>(device.uuid.bytes[i]));
  }
  return text;
}

DeviceLinks LinksOf(const cudaDeviceProp& device) {
  const Nccl& nccl = FindNccl();
  DeviceLinks links{.tensors = &CudaLinkMemory(),
                    .host = &PinnedMemory(),
                    .gpu = IdentityOf(device),
                    .nccl_version = nccl.version,
                    .nccl_missing = nccl.missing};
  if (nccl.version == 0) return links;
  static const std::unique_ptr<PayloadChannels> channels = MakeNcclChannels(0);
  links.channels = channels.get();
  return links;
}

CudaPluginDevices Find() {
  CudaPluginDevices found;
  // Untouched by cudaGetDeviceCount when it fails.
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaDeviceProp device{};
  if (error != cudaSuccess || count == 0 ||
      cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
    found.text =
        absl::StrFormat("no CUDA device: %s", cudaGetErrorString(error));
    return found;
  }
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  const std::string name =
      absl::StrFormat("%s sm_%d%d", device.name, device.major, device.minor);
  found.count = count;
  found.text =
      absl::StrFormat("%d CUDA device(s), first: %s, %.1f GiB", count, name,
                      static_cast<double>(device.totalGlobalMem) / (1 << 30));
  int solver = 0;
  cusolverGetVersion(&solver);
  found.numerics =
      absl::StrFormat("CUDA %d, cuBLASLt %d, cuSOLVER %d, %s, kernels 3",
                      runtime, cublasLtGetVersion(), solver, name);
  found.links = LinksOf(device);
  return found;
}

constexpr CudaPlugin kPlugin{kCudaPluginBuild, Find, MakeCudaEngine};

}  // namespace
}  // namespace gimbal::worker

const gimbal::worker::CudaPlugin* gimbal_cuda_plugin() {
  return &gimbal::worker::kPlugin;
}
