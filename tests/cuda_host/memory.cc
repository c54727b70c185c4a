#include "tests/cuda_host/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

namespace gimbal::cuda_host {
namespace {

constexpr size_t kPage = 4096;
// What cudaMalloc promises.
constexpr size_t kAlignment = 256;
#ifdef __SANITIZE_ADDRESS__
constexpr bool kMapped = false;
#else
constexpr bool kMapped = true;
#endif

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

void* Aligned(size_t alignment, size_t bytes) {
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, bytes) == 0 ? memory : nullptr;
}

// Says what a fault on device memory means, and ends as it would have ended.
void OnFault(int signal, siginfo_t* info, void* /*context*/) {
  const char* text = "";
  if (info->si_code == SEGV_PKUERR) {
    text = "cuda_host: a thread of the host touched device memory\n";
  } else if (Memory::Get().IsGuard(info->si_addr)) {
    text =
        "cuda_host: access beyond the end of an allocation in device memory\n";
  }
  static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
  std::signal(signal, SIG_DFL);
}

// Unless the program looks after faults itself.
void ExplainFaults() {
  struct sigaction present = {};
  if (sigaction(SIGSEGV, nullptr, &present) != 0 ||
      present.sa_handler != SIG_DFL) {
    return;
  }
  struct sigaction explain = {};
  explain.sa_sigaction = OnFault;
  explain.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &explain, nullptr);
}

size_t TotalMemory() {
  const char* text = std::getenv("GIMBAL_CUDA_HOST_MEMORY");
  return text != nullptr ? std::stoull(text) : size_t{8} << 30;
}

}  // namespace

Memory& Memory::Get() {
  // Never destroyed: threads may be using it at exit.
  static Memory* const memory = new Memory;
  return *memory;
}

Memory::Memory() : total_(TotalMemory()) {
  if (!kMapped) return;
  const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  key_ = key > 0 ? key : 0;
  ExplainFaults();
}

void AllowDeviceMemory(bool allow) {
  const int key = Memory::Get().key_;
  if (key != 0) pkey_set(key, allow ? 0 : PKEY_DISABLE_ACCESS);
}

bool DeviceMemoryIsGuarded() { return Memory::Get().key_ != 0; }

size_t Memory::used(int device) {
  std::lock_guard lock(mutex_);
  return used_[device];
}

// The end of the allocation is as near to the guard page as alignment allows.
void* Memory::Map(size_t bytes, size_t* mapped) {
  const size_t body = RoundUp(bytes, kPage);
  *mapped = body + kPage;
  void* map = mmap(nullptr, *mapped, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  char* const base = static_cast<char*>(map);
  char* const pointer = base + body - RoundUp(bytes, kAlignment);
  std::memset(pointer, 0xFF, bytes);
  if (key_ != 0) pkey_mprotect(map, body, PROT_READ | PROT_WRITE, key_);
  mprotect(base + body, kPage, PROT_NONE);
  return pointer;
}

cudaError_t Memory::AllocateDevice(size_t bytes, int device, void** pointer) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  std::lock_guard lock(mutex_);
  if (bytes > total_ - used_[device]) return cudaErrorMemoryAllocation;
  Allocation made{Allocation::Kind::kDevice, 0, bytes, device, 0};
  void* const memory =
      kMapped ? Map(bytes, &made.mapped) : Aligned(kAlignment, bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  if (!kMapped) std::memset(memory, 0xFF, bytes);
  made.begin = reinterpret_cast<uintptr_t>(memory);
  allocations_[made.begin] = made;
  used_[device] += bytes;
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t Memory::AllocatePinned(size_t bytes, int device, void** pointer) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* const memory = Aligned(kPage, bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(memory, 0xFF, bytes);
  std::lock_guard lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  allocations_[begin] = {Allocation::Kind::kPinned, begin, bytes, device, 0};
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t Memory::Free(void* pointer, Allocation::Kind kind) {
  if (pointer == nullptr) return cudaSuccess;
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == allocations_.end() || found->second.kind != kind) {
    return cudaErrorInvalidValue;
  }
  const Allocation gone = found->second;
  allocations_.erase(found);
  if (kind == Allocation::Kind::kDevice) used_[gone.device] -= gone.bytes;
  if (gone.mapped == 0) {
    std::free(pointer);
  } else {
    munmap(reinterpret_cast<void*>(gone.begin / kPage * kPage), gone.mapped);
  }
  return cudaSuccess;
}

cudaError_t Memory::Register(void* pointer, size_t bytes, int device) {
  if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
  std::lock_guard lock(mutex_);
  if (Containing(pointer) != nullptr) {
    return cudaErrorHostMemoryAlreadyRegistered;
  }
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  allocations_[begin] = {Allocation::Kind::kRegistered, begin, bytes, device,
                         0};
  return cudaSuccess;
}

cudaError_t Memory::Unregister(void* pointer) {
  std::lock_guard lock(mutex_);
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == allocations_.end() ||
      found->second.kind != Allocation::Kind::kRegistered) {
    return cudaErrorHostMemoryNotRegistered;
  }
  allocations_.erase(found);
  return cudaSuccess;
}

const Allocation* Memory::Containing(const void* pointer) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return nullptr;
  const Allocation& before = std::prev(after)->second;
  return address < before.begin + before.bytes ? &before : nullptr;
}

bool Memory::IsGuard(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return false;
  const Allocation& before = std::prev(after)->second;
  return before.mapped != 0 &&
         address < before.begin / kPage * kPage + before.mapped;
}

bool Memory::Find(const void* pointer, Allocation* found) {
  std::lock_guard lock(mutex_);
  const Allocation* allocation = Containing(pointer);
  if (allocation == nullptr) return false;
  *found = *allocation;
  return true;
}

bool Memory::IsDevice(const void* pointer, size_t bytes) {
  Allocation found;
  return Find(pointer, &found) && found.kind == Allocation::Kind::kDevice &&
         reinterpret_cast<uintptr_t>(pointer) + bytes <=
             found.begin + found.bytes;
}

bool Memory::IsPinned(const void* pointer, size_t bytes) {
  Allocation found;
  return Find(pointer, &found) && found.kind != Allocation::Kind::kDevice &&
         reinterpret_cast<uintptr_t>(pointer) + bytes <=
             found.begin + found.bytes;
}

bool Memory::IsHost(const void* pointer, size_t bytes) {
  const char* const last = static_cast<const char*>(pointer) + bytes - 1;
  Allocation found;
  for (const void* edge : {pointer, static_cast<const void*>(last)}) {
    if (Find(edge, &found) && found.kind == Allocation::Kind::kDevice) {
      return false;
    }
  }
  return true;
}

}  // namespace gimbal::cuda_host
