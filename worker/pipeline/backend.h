// What a worker computes its stages with: the CPU, or CUDA through
// libgimbal_cuda.so. A program needs no driver and no library to start: it
// looks for the driver first, then for the plugin beside itself (preset
// `cuda`), then for a device.
//
// GIMBAL_CUDA_PLUGIN names another plugin, which is then loaded without a look
// for the driver.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/pipeline/stage_engine.h"
#include "worker/transport/device_links.h"

namespace gimbal::worker {

struct Backend {
  std::string device;  // "cpu" or "cuda"
  // All but config and data that the last bits of a run depend on. A run admits
  // one value.
  std::string numerics;
  EngineFactory make_engine;
  DeviceLinks links;
  bool reduced_precision = false;  // computes in bf16 and tf32, too
};

// Of the host's processor.
Backend CpuBackend();

struct CudaSearch {
  int devices = 0;
  // One line for people: what was found, or what is missing.
  std::string text;
  Backend backend;  // when there is a device
};

// Lets this process see one GPU of those that it could see, the `index`-th.
// OUT_OF_RANGE when the environment shows fewer. Before FindCuda and any other
// thread.
absl::Status ShowOneGpu(int index);

// Searches once; the same answer afterwards. Thread-safe.
const CudaSearch& FindCuda();

// `device`: cpu, cuda, or auto, which is cuda where there is a device. Errors:
// INVALID_ARGUMENT for another word, FAILED_PRECONDITION when there is no
// device. Thread-safe.
absl::StatusOr<Backend> ChooseBackend(const std::string& device);

// Whether such stages run on a device, "cpu" or "cuda"; else INVALID_ARGUMENT,
// with the keys of the config that ask for what does not.
absl::Status CheckSupports(const std::string& device,
                           const StageEngineSpec& spec);

// What computes such stages. `device` as in ChooseBackend; auto takes what runs
// them, CUDA before the CPU. Errors: those of both.
absl::StatusOr<Backend> ChooseBackendFor(const std::string& device,
                                         const StageEngineSpec& spec);

}  // namespace gimbal::worker
