// Memory and copies.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda_host/device.h"
#include "tests/cuda_host/memory.h"
#include "tests/cuda_host/runtime.h"

namespace gimbal::cuda_host {
namespace {

using Kind = Allocation::Kind;

// A rectangle of bytes.
struct Copy {
  char* to;
  size_t to_pitch;
  const char* from;
  size_t from_pitch;
  size_t width, height;

  size_t to_bytes() const { return to_pitch * (height - 1) + width; }
  size_t from_bytes() const { return from_pitch * (height - 1) + width; }
};

void Execute(const Copy& copy) {
  for (size_t row = 0; row < copy.height; ++row) {
    std::memcpy(copy.to + row * copy.to_pitch,
                copy.from + row * copy.from_pitch, copy.width);
  }
}

bool FromDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}

bool ToDevice(cudaMemcpyKind kind) {
  return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}

// The sides must be where `kind` says, and whole.
cudaError_t Check(const Copy& copy, cudaMemcpyKind* kind) {
  Memory& memory = Memory::Get();
  if (copy.width > copy.to_pitch || copy.width > copy.from_pitch) {
    return cudaErrorInvalidValue;
  }
  if (*kind == cudaMemcpyDefault) {
    const bool from = !memory.IsHost(copy.from, 1);
    const bool to = !memory.IsHost(copy.to, 1);
    *kind = from ? (to ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost)
                 : (to ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost);
  }
  if (*kind < cudaMemcpyHostToHost || *kind > cudaMemcpyDeviceToDevice) {
    return cudaErrorInvalidMemcpyDirection;
  }
  const bool from_fits = FromDevice(*kind)
                             ? memory.IsDevice(copy.from, copy.from_bytes())
                             : memory.IsHost(copy.from, copy.from_bytes());
  const bool to_fits = ToDevice(*kind)
                           ? memory.IsDevice(copy.to, copy.to_bytes())
                           : memory.IsHost(copy.to, copy.to_bytes());
  return from_fits && to_fits ? cudaSuccess : cudaErrorInvalidValue;
}

// What is read of pageable memory is taken at once, as a driver may do; what
// goes there comes later, as a driver may do too.
MakeOperation CopyOperation(const Copy& copy, cudaMemcpyKind kind) {
  if (FromDevice(kind) ||
      Memory::Get().IsPinned(copy.from, copy.from_bytes())) {
    return Once([copy] { Execute(copy); });
  }
  auto staged = std::make_shared<std::vector<char>>(
      copy.from, copy.from + copy.from_bytes());
  return Once([copy, staged] {
    Copy from_staged = copy;
    from_staged.from = staged->data();
    Execute(from_staged);
  });
}

cudaError_t Enqueue(const Copy& copy, cudaMemcpyKind kind,
                    cudaStream_t stream) {
  if (copy.width == 0 || copy.height == 0) return cudaSuccess;
  if (const cudaError_t error = Check(copy, &kind)) return Remember(error);
  return Remember(Device::Get().Enqueue(stream, CopyOperation(copy, kind)));
}

// In the legacy stream, and waits.
cudaError_t CopyNow(const Copy& copy, cudaMemcpyKind kind) {
  if (const cudaError_t error = Enqueue(copy, kind, nullptr)) return error;
  return Remember(Device::Get().WaitForStream(nullptr));
}

Copy Straight(void* dst, const void* src, size_t count) {
  return {static_cast<char*>(dst),
          count,
          static_cast<const char*>(src),
          count,
          count,
          1};
}

Copy Rectangle(void* dst, size_t dpitch, const void* src, size_t spitch,
               size_t width, size_t height) {
  return {static_cast<char*>(dst),
          dpitch,
          static_cast<const char*>(src),
          spitch,
          width,
          height};
}

}  // namespace
}  // namespace gimbal::cuda_host

using namespace gimbal::cuda_host;

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = Memory::Get().total();
  *free = *total - Memory::Get().used(CurrentDevice());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  if (const cudaError_t error = Device::Get().CheckUnsafeCall()) {
    return Remember(error);
  }
  return Remember(Memory::Get().AllocateDevice(size, CurrentDevice(), devPtr));
}

cudaError_t cudaFree(void* devPtr) {
  if (devPtr == nullptr) return cudaSuccess;
  if (const cudaError_t error = Device::Get().CheckUnsafeCall()) {
    return Remember(error);
  }
  if (const cudaError_t error = Device::Get().WaitForAll()) {
    return Remember(error);
  }
  return Remember(Memory::Get().Free(devPtr, Kind::kDevice));
}

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  if (Device::Get().Find(hStream, CurrentDevice()) == nullptr) {
    return Remember(cudaErrorInvalidResourceHandle);
  }
  return Remember(Memory::Get().AllocateDevice(size, CurrentDevice(), devPtr));
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  if (devPtr == nullptr) return cudaSuccess;
  if (!Memory::Get().IsDevice(devPtr, 1)) {
    return Remember(cudaErrorInvalidValue);
  }
  return Remember(Device::Get().Enqueue(
      hStream, Once([devPtr] { Memory::Get().Free(devPtr, Kind::kDevice); })));
}

cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int /*flags*/) {
  if (const cudaError_t error = Device::Get().CheckUnsafeCall()) {
    return Remember(error);
  }
  return Remember(Memory::Get().AllocatePinned(size, CurrentDevice(), pHost));
}

cudaError_t cudaFreeHost(void* ptr) {
  if (const cudaError_t error = Device::Get().CheckUnsafeCall()) {
    return Remember(error);
  }
  if (const cudaError_t error = Device::Get().WaitForAll()) {
    return Remember(error);
  }
  return Remember(Memory::Get().Free(ptr, Kind::kPinned));
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int /*flags*/) {
  return Remember(Memory::Get().Register(ptr, size, CurrentDevice()));
}

cudaError_t cudaHostUnregister(void* ptr) {
  return Remember(Memory::Get().Unregister(ptr));
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost,
                                     unsigned int flags) {
  if (flags != 0 || !Memory::Get().IsPinned(pHost, 1)) {
    return Remember(cudaErrorInvalidValue);
  }
  *pDevice = pHost;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                     const void* ptr) {
  void* const pointer = const_cast<void*>(ptr);
  *attributes = {cudaMemoryTypeUnregistered, -2, nullptr, pointer};
  Allocation found;
  if (!Memory::Get().Find(ptr, &found)) return cudaSuccess;
  attributes->device = found.device;
  attributes->devicePointer = pointer;
  attributes->type = cudaMemoryTypeHost;
  if (found.kind == Kind::kDevice) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count,
                       cudaMemcpyKind kind) {
  return CopyNow(Straight(dst, src, count), kind);
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return Enqueue(Straight(dst, src, count), kind, stream);
}

cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src,
                         size_t spitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  return CopyNow(Rectangle(dst, dpitch, src, spitch, width, height), kind);
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src,
                              size_t spitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return Enqueue(Rectangle(dst, dpitch, src, spitch, width, height), kind,
                 stream);
}

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  if (const cudaError_t error = cudaMemsetAsync(devPtr, value, count)) {
    return error;
  }
  return Remember(Device::Get().WaitForStream(nullptr));
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count,
                            cudaStream_t stream) {
  return cudaMemset2DAsync(devPtr, count, value, count, 1, stream);
}

cudaError_t cudaMemset2DAsync(void* devPtr, size_t pitch, int value,
                              size_t width, size_t height,
                              cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > pitch ||
      !Memory::Get().IsDevice(devPtr, pitch * (height - 1) + width)) {
    return Remember(cudaErrorInvalidValue);
  }
  return Remember(Device::Get().Enqueue(
      stream, Once([=] {
        for (size_t row = 0; row < height; ++row) {
          std::memset(static_cast<char*>(devPtr) + row * pitch, value, width);
        }
      })));
}
