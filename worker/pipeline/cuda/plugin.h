// The interface between a program and libgimbal_cuda.so. One C symbol gives a
// table of C++ functions; both sides were built by one compiler from one
// source, which `build` shows.
#pragma once

#include <memory>
#include <string>

#include "worker/pipeline/stage_engine.h"
#include "worker/transport/device_links.h"

namespace gimbal::worker {

struct CudaPluginDevices {
  int count = 0;
  std::string text;      // one line for people: what there is, or why not
  std::string numerics;  // see Backend
  DeviceLinks links;     // likewise, with devices
};

struct CudaPlugin {
  const char* build = nullptr;
  CudaPluginDevices (*find)() = nullptr;
  std::unique_ptr<StageEngine> (*make_engine)(const StageEngineSpec& spec) =
      nullptr;
};

using CudaPluginEntry = const CudaPlugin* (*)();

// The number grows with every change of what crosses this interface.
inline constexpr char kCudaPluginBuild[] = "interface 3, compiler " __VERSION__;
inline constexpr char kCudaPluginEntryName[] = "gimbal_cuda_plugin";

}  // namespace gimbal::worker

extern "C" const gimbal::worker::CudaPlugin* gimbal_cuda_plugin();
