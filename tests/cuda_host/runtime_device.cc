// Devices and errors.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cuda_host/block.h"
#include "tests/cuda_host/device.h"
#include "tests/cuda_host/memory.h"
#include "tests/cuda_host/runtime.h"

namespace gimbal::cuda_host {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

std::vector<int> VisibleDevices() {
  const char* all = std::getenv("GIMBAL_CUDA_HOST_DEVICES");
  const int count = all != nullptr ? std::stoi(all) : 1;
  std::vector<int> devices;
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    for (int device = 0; device < count; ++device) devices.push_back(device);
    return devices;
  }
  std::istringstream list(visible);
  for (std::string item; std::getline(list, item, ',');) {
    const int device = std::atoi(item.c_str());
    // The first one that is not there hides the rest.
    if (device < 0 || device >= count) break;
    devices.push_back(device);
  }
  return devices;
}

const std::vector<int>& Devices() {
  static const std::vector<int> devices = VisibleDevices();
  return devices;
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};

#define GIMBAL_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    GIMBAL_ERROR(cudaSuccess, "no error"),
    GIMBAL_ERROR(cudaErrorInvalidValue, "invalid argument"),
    GIMBAL_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    GIMBAL_ERROR(cudaErrorInitializationError, "initialization error"),
    GIMBAL_ERROR(cudaErrorInvalidConfiguration,
                 "invalid configuration argument"),
    GIMBAL_ERROR(cudaErrorInvalidMemcpyDirection,
                 "invalid copy direction for memcpy"),
    GIMBAL_ERROR(cudaErrorInsufficientDriver,
                 "CUDA driver version is insufficient for CUDA runtime "
                 "version"),
    GIMBAL_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    GIMBAL_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    GIMBAL_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    GIMBAL_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    GIMBAL_ERROR(cudaErrorIllegalState,
                 "the operation cannot be performed in the present state"),
    GIMBAL_ERROR(cudaErrorNotReady, "device not ready"),
    GIMBAL_ERROR(cudaErrorHostMemoryAlreadyRegistered,
                 "part or all of the requested memory range is already mapped"),
    GIMBAL_ERROR(cudaErrorHostMemoryNotRegistered,
                 "pointer does not correspond to a registered memory region"),
    GIMBAL_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    GIMBAL_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    GIMBAL_ERROR(cudaErrorNotSupported, "operation not supported"),
    GIMBAL_ERROR(cudaErrorStreamCaptureUnsupported,
                 "operation not permitted when stream is capturing"),
    GIMBAL_ERROR(cudaErrorStreamCaptureInvalidated,
                 "operation failed due to a previous error during capture"),
    GIMBAL_ERROR(cudaErrorStreamCaptureMerge,
                 "operation would result in a merge of separate capture "
                 "sequences"),
    GIMBAL_ERROR(cudaErrorStreamCaptureUnmatched,
                 "capture was not ended in the same stream as it began"),
    GIMBAL_ERROR(cudaErrorStreamCaptureUnjoined,
                 "capturing stream has unjoined work"),
    GIMBAL_ERROR(cudaErrorStreamCaptureIsolation,
                 "dependency created on uncaptured work in another stream"),
    GIMBAL_ERROR(cudaErrorStreamCaptureImplicit,
                 "operation would make the legacy stream depend on a capturing "
                 "blocking stream"),
    GIMBAL_ERROR(cudaErrorCapturedEvent,
                 "operation not permitted on an event last recorded in a "
                 "capturing stream"),
    GIMBAL_ERROR(cudaErrorStreamCaptureWrongThread,
                 "attempt to terminate a thread-local capture sequence from "
                 "another thread"),
    GIMBAL_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef GIMBAL_ERROR

const ErrorText& TextOf(cudaError_t error) {
  static constexpr ErrorText kUnknown = {
      cudaErrorUnknown, "unrecognized error code", "unrecognized error code"};
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return entry;
  }
  return kUnknown;
}

cudaError_t CheckDevice(int device) {
  if (DeviceCount() == 0) return Remember(cudaErrorNoDevice);
  if (device >= 0 && device < DeviceCount()) return cudaSuccess;
  return Remember(cudaErrorInvalidDevice);
}

}  // namespace

int DeviceCount() { return static_cast<int>(Devices().size()); }

int PhysicalDevice(int device) {
  return Devices()[static_cast<size_t>(device)];
}

int CurrentDevice() { return current_device; }

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace gimbal::cuda_host

using namespace gimbal::cuda_host;

cudaError_t cudaGetDeviceCount(int* count) {
  // As in CUDA, the argument is left alone when there is none.
  if (DeviceCount() == 0) return Remember(cudaErrorNoDevice);
  *count = DeviceCount();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  if (DeviceCount() == 0) return Remember(cudaErrorNoDevice);
  *device = CurrentDevice();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const cudaError_t error = CheckDevice(device);
  if (error == cudaSuccess) current_device = device;
  return error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  if (const cudaError_t error = CheckDevice(device)) return error;
  *prop = {};
  const int physical = PhysicalDevice(device);
  std::snprintf(prop->name, sizeof prop->name, "gimbal host device");
  std::snprintf(prop->uuid.bytes, sizeof prop->uuid.bytes, "gimbal-host-%03d",
                physical);
  prop->totalGlobalMem = Memory::Get().total();
  prop->sharedMemPerBlock = 48 << 10;
  prop->sharedMemPerBlockOptin = kMaxSharedBytes;
  prop->sharedMemPerMultiprocessor = 228 << 10;
  prop->regsPerBlock = 65536;
  prop->warpSize = 32;
  prop->maxThreadsPerBlock = 1024;
  prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
  prop->maxThreadsDim[2] = 64;
  prop->maxGridSize[0] = 0x7fffffff;
  prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
  prop->major = 9;
  prop->multiProcessorCount = 4;
  prop->concurrentKernels = 1;
  prop->pciBusID = physical;
  prop->asyncEngineCount = 2;
  prop->unifiedAddressing = 1;
  prop->memoryBusWidth = 128;
  prop->l2CacheSize = 4 << 20;
  prop->maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr,
                                   int device) {
  cudaDeviceProp prop;
  const cudaError_t error = cudaGetDeviceProperties(&prop, device);
  if (error != cudaSuccess) return error;
  switch (attr) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = prop.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(prop.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = prop.warpSize;
      break;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      *value = 1000000;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = prop.multiProcessorCount;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = prop.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = prop.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = prop.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = prop.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = prop.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(prop.sharedMemPerBlockOptin);
      break;
    default:
      return Remember(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  if (const cudaError_t error = CheckDevice(device)) return error;
  const int written = std::snprintf(pciBusId, static_cast<size_t>(len),
                                    "0000:%02X:00.0", PhysicalDevice(device));
  return Remember(written < len ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = Device::Get().CheckUnsafeCall()) {
    return Remember(error);
  }
  return Remember(Device::Get().WaitForAll());
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  *driverVersion = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  *runtimeVersion = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t sticky = Device::Get().sticky_error();
  return sticky != cudaSuccess ? sticky : last_error;
}

const char* cudaGetErrorName(cudaError_t error) { return TextOf(error).name; }

const char* cudaGetErrorString(cudaError_t error) { return TextOf(error).text; }
