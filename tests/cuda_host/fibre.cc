#include "tests/cuda_host/fibre.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves what a called function must keep and the stack pointer, then takes up
// the other's. Kernels do not change the modes of the floating-point units.
extern "C" void gimbal_fibre_switch(void** save, void* load);
asm(R"(
  .text
  .type gimbal_fibre_switch, @function
gimbal_fibre_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size gimbal_fibre_switch, .-gimbal_fibre_switch
)");

namespace gimbal::cuda_host {
namespace {

constexpr size_t kPage = 4096;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStackBytes = 256 << 10;
#else
constexpr size_t kStackBytes = 64 << 10;
#endif

// The fibre that is being switched to.
Fibre* arriving = nullptr;

}  // namespace

void Switch(Fibre& from, Fibre& to, [[maybe_unused]] bool ends) {
  arriving = &to;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.bottom,
                                 to.size);
#endif
  gimbal_fibre_switch(&from.stack_pointer, to.stack_pointer);
  Arrived();
}

void Arrived() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(arriving->fake_stack, nullptr, nullptr);
#endif
}

FibreStacks::~FibreStacks() {
  for (void* stack : all_) munmap(stack, kPage + kStackBytes);
}

Fibre FibreStacks::Take(void (*entry)()) {
  if (free_.empty()) {
    void* stack =
        mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, kPage, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
    all_.push_back(stack);
    free_.push_back(stack);
  }
  char* const bottom = static_cast<char*>(free_.back()) + kPage;
  free_.pop_back();
#ifdef __SANITIZE_ADDRESS__
  // What the last one left there may be poisoned.
  __asan_unpoison_memory_region(bottom, kStackBytes);
#endif
  // Six registers, the address to return to, and one word because a function
  // finds the stack off 16 bytes by the return address.
  auto** top = reinterpret_cast<void**>(bottom + kStackBytes) - 8;
  for (int i = 0; i < 8; ++i) top[i] = nullptr;
  top[6] = reinterpret_cast<void*>(entry);
  return {top, nullptr, bottom, kStackBytes};
}

void FibreStacks::Release(const Fibre& fibre) {
  free_.push_back(const_cast<char*>(static_cast<const char*>(fibre.bottom)) -
                  kPage);
}

}  // namespace gimbal::cuda_host
