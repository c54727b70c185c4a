#include "worker/compute/cuda_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "worker/compute/cuda/plugin.h"

namespace gimbal::compute {
namespace {

std::string PluginPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / "libgimbal_cuda.so").string();
}

CudaSearch Search() {
  // RTLD_LOCAL: the driver's symbols are the plugin's business.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return {0, "no NVIDIA driver on this machine (libcuda.so.1 not found)"};
  }
  void* plugin = dlopen(PluginPath().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    return {0, std::string("a driver, but no CUDA back end: ") + dlerror() +
                   "; build with preset cuda"};
  }
  const auto describe = reinterpret_cast<GimbalCudaDescribe>(
      dlsym(plugin, kGimbalCudaDescribe));
  if (describe == nullptr) return {0, PluginPath() + " is of another version"};
  char text[256] = {};
  const int devices = describe(text, sizeof text);
  return {devices, text};
}

}  // namespace

const CudaSearch& FindCuda() {
  static const CudaSearch search = Search();
  return search;
}

}  // namespace gimbal::compute
