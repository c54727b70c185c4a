#include "worker/pipeline/backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/compute/runtime.h"
#include "worker/pipeline/cpu_engine.h"
#include "worker/pipeline/cuda/plugin.h"

namespace gimbal::worker {
namespace {

std::string PluginPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / "libgimbal_cuda.so").string();
}

// For workers that learn what a run asks of them when they have stages.
EngineFactory Checked(const char* device, EngineFactory make) {
  return [device, make = std::move(make)](const StageEngineSpec& spec) {
    const absl::Status supported = CheckSupports(device, spec);
    if (supported.ok()) return make(spec);
    throw std::runtime_error(std::string(supported.message()));
  };
}

CudaSearch Load(const std::string& path) {
  // Every stream its own queue, as far as there are any: a transfer that waits
  // for its other end must not hold up what would bring that about, nor the
  // loading of a kernel wait for it.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  // RTLD_LOCAL: the libraries' symbols are the plugin's business.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return {.text = absl::StrCat("no CUDA back end: ", dlerror(),
                                 "; build with preset cuda")};
  }
  const auto entry =
      reinterpret_cast<CudaPluginEntry>(dlsym(library, kCudaPluginEntryName));
  const CudaPlugin* plugin = entry == nullptr ? nullptr : entry();
  if (plugin == nullptr || std::strcmp(plugin->build, kCudaPluginBuild) != 0) {
    return {.text = absl::StrCat(
                path, " is of another version: ",
                plugin == nullptr ? "it has no entry" : plugin->build,
                " instead of ", kCudaPluginBuild)};
  }
  CudaPluginDevices found = plugin->find();
  return {.devices = found.count,
          .text = std::move(found.text),
          .backend = {"cuda", std::move(found.numerics),
                      Checked("cuda", plugin->make_engine),
                      std::move(found.links), /*reduced_precision=*/true}};
}

CudaSearch Search() {
  if (const char* path = std::getenv("GIMBAL_CUDA_PLUGIN")) return Load(path);
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    return {.text =
                "no NVIDIA driver on this machine (libcuda.so.1 not found)"};
  }
  return Load(PluginPath());
}

// Beyond them the kernels have no tile.
constexpr int kMaxHeadDim = 128;
constexpr int kMaxHidden = 8192;
constexpr int kMaxOddHidden = 2048;

absl::Status CheckCuda(const ModelSpec& model) {
  const auto refuse = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(
        what..., " does not run on CUDA in this version: use --device cpu",
        model.bf16 ? " with precision.compute: fp32" : ""));
  };
  const int head_dim = model.hidden / model.heads;
  if (head_dim > kMaxHeadDim) {
    return refuse("model.hidden / model.heads = ", head_dim, " above ",
                  kMaxHeadDim);
  }
  const int pack = model.bf16 ? 8 : 4;
  const int widest = model.hidden % pack == 0 ? kMaxHidden : kMaxOddHidden;
  if (model.hidden > widest) {
    return refuse("model.hidden = ", model.hidden, " above ", widest);
  }
  return absl::OkStatus();
}

}  // namespace

Backend CpuBackend() {
  return {"cpu", compute::NumericsTag(), Checked("cpu", MakeCpuEngine)};
}

absl::Status ShowOneGpu(int index) {
  const char* shown = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string one = absl::StrCat(index);
  if (shown != nullptr) {
    const std::vector<std::string> all =
        absl::StrSplit(shown, ',', absl::SkipEmpty());
    if (index >= static_cast<int>(all.size())) {
      return absl::OutOfRangeError(
          absl::StrCat("--gpu ", index, ": CUDA_VISIBLE_DEVICES='", shown,
                       "' shows ", all.size(), " GPUs, counted from 0"));
    }
    one = all[static_cast<size_t>(index)];
  }
  setenv("CUDA_VISIBLE_DEVICES", one.c_str(), /*overwrite=*/1);
  return absl::OkStatus();
}

const CudaSearch& FindCuda() {
  static const CudaSearch search = Search();
  return search;
}

absl::StatusOr<Backend> ChooseBackend(const std::string& device) {
  if (device == "cpu") return CpuBackend();
  if (device != "cuda" && device != "auto") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--device ", device, ": unknown device; expected cpu, cuda or auto"));
  }
  const CudaSearch& cuda = FindCuda();
  if (cuda.devices > 0) return cuda.backend;
  if (device == "auto") return CpuBackend();
  return absl::FailedPreconditionError(
      absl::StrCat("--device cuda: ", cuda.text, "; use --device cpu"));
}

absl::Status CheckSupports(const std::string& device,
                           const StageEngineSpec& spec) {
  if (device == "cuda") return CheckCuda(spec.stage.model);
  const ModelSpec& model = spec.stage.model;
  if (model.bf16 || model.tf32) {
    const char* key = model.bf16 ? "precision.compute" : "precision.matmul";
    return absl::InvalidArgumentError(absl::StrCat(
        key, ": ", model.bf16 ? "bf16" : "tf32",
        " does not run on the CPU: use --device cuda, or ", key, ": fp32"));
  }
  if (spec.update.optimizer.offload) {
    return absl::InvalidArgumentError(
        "optimizer.offload: host is for GPUs; on the CPU the state is in the "
        "host's memory anyway: use --device cuda, or optimizer.offload: none");
  }
  return absl::OkStatus();
}

absl::StatusOr<Backend> ChooseBackendFor(const std::string& device,
                                         const StageEngineSpec& spec) {
  absl::StatusOr<Backend> backend = ChooseBackend(device);
  if (!backend.ok()) return backend;
  const absl::Status supported = CheckSupports(backend->device, spec);
  if (supported.ok()) return backend;
  if (device != "auto") return supported;
  if (backend->device == "cpu") {
    return absl::InvalidArgumentError(absl::StrCat(
        supported.message(), "; --device auto: ", FindCuda().text));
  }
  if (CheckSupports("cpu", spec).ok()) return CpuBackend();
  return supported;
}

}  // namespace gimbal::worker
