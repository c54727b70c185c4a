#include "tests/cuda_host/block.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "tests/cuda_host/fibre.h"
#include "tests/cuda_host/include/gimbal_device_language.h"

alignas(1024) unsigned char gimbal_shared[gimbal::cuda_host::kMaxSharedBytes];

namespace gimbal::cuda_host {

Place place;

namespace {

struct Copy {
  void* to;
  const void* from;
  int bytes;
};

struct WarpAction {
  void (*act)(void* const* lanes);
  void* mine;
};

struct Thread {
  Fibre fibre;  // Without a stack until it is begun.
  uint3 index;
  uint32_t number = 0;
  // What it brings to a collective of its warp, and what it takes from it.
  unsigned mask = 0;
  Collective kind = Collective::kNone;
  int source = 0;
  uint64_t value = 0;
  // Not yet made.
  std::vector<Copy> copies;
};

struct Warp {
  unsigned alive = 0;
  unsigned waiting = 0;
};

// AddressSanitizer counts its red zone as part of a variable.
__attribute__((no_sanitize_address)) void Forget(std::span<char> variable) {
  for (char& byte : variable) byte = static_cast<char>(0xFF);
}

std::string Text(const uint3& v) {
  return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " +
         std::to_string(v.z) + ")";
}

}  // namespace

class BlockRunner::Impl {
 public:
  explicit Impl(Random& random) : random_(random) {}

  // `shared`: all of the block's shared memory.
  std::string Run(const dim3& block, const std::function<void()>& thread,
                  std::vector<std::span<char>> shared);

  uint64_t Collect(Collective kind, unsigned mask, uint64_t value, int source);
  int Barrier(bool predicate);
  void BeginCopy(const Copy& copy);
  void WaitForCopies();
  void CheckShared(const void* at, int bytes);
  // Ends the block with an error. No object may be alive on the stack.
  [[noreturn]] void Fail(const char* text);

  int lane() const { return static_cast<int>(current_->number % kWarpSize); }

 private:
  [[noreturn]] void Abandon();
  void Begin(const dim3& block);
  static void FibreMain();
  void End(Thread& thread);
  // One of those that can run, or the place of Run when there is none.
  Thread* Draw();
  void MakeCurrent(Thread& thread);
  void Wait();
  void TryCollective(Warp& warp, unsigned mask);
  static const char* CheckCollective(const Thread* lanes, unsigned mask);
  // What lanes have brought that do something together.
  void Act(const uint64_t (&brought)[kWarpSize], unsigned lanes_left);
  void TryBarrier();
  std::string Deadlock() const;

  Random& random_;
  FibreStacks stacks_;
  Fibre caller_;
  const std::function<void()>* body_ = nullptr;
  std::vector<std::span<char>> shared_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<uint32_t> runnable_;
  Thread* current_ = nullptr;
  uint32_t alive_ = 0;
  std::vector<uint32_t> at_barrier_;
  int predicates_ = 0;
  int barrier_result_ = 0;
  std::string error_;
};

namespace {

BlockRunner::Impl* running = nullptr;

BlockRunner::Impl& Running() {
  if (running == nullptr) {
    std::fputs("cuda_host: device code was called outside a kernel\n", stderr);
    std::abort();
  }
  return *running;
}

}  // namespace

void BlockRunner::Impl::Begin(const dim3& block) {
  const uint32_t count = block.x * block.y * block.z;
  threads_.resize(count);
  runnable_.resize(count);
  uint32_t n = 0;
  for (uint32_t z = 0; z < block.z; ++z) {
    for (uint32_t y = 0; y < block.y; ++y) {
      for (uint32_t x = 0; x < block.x; ++x, ++n) {
        threads_[n].fibre.stack_pointer = nullptr;
        threads_[n].index = {x, y, z};
        threads_[n].number = n;
        threads_[n].kind = Collective::kNone;
        threads_[n].copies.clear();
        runnable_[n] = n;
      }
    }
  }
  warps_.assign((count + kWarpSize - 1) / kWarpSize, Warp{~0u, 0});
  if (count % kWarpSize != 0) {
    warps_.back().alive = (1u << (count % kWarpSize)) - 1;
  }
  alive_ = count;
  at_barrier_.clear();
  predicates_ = 0;
  error_.clear();
}

std::string BlockRunner::Impl::Run(const dim3& block,
                                   const std::function<void()>& thread,
                                   std::vector<std::span<char>> shared) {
  Begin(block);
  shared_ = std::move(shared);
  body_ = &thread;
  Thread* const first = Draw();
  first->fibre = stacks_.Take(FibreMain);
  MakeCurrent(*first);
  Switch(caller_, first->fibre);
  // Stacks of threads that will never go on.
  if (!error_.empty()) {
    for (const Thread& left : threads_) {
      if (left.fibre.stack_pointer != nullptr) stacks_.Release(left.fibre);
    }
  }
  return error_;
}

// Runs threads to their end, one after the other, as long as those it draws
// were not begun elsewhere.
void BlockRunner::Impl::FibreMain() {
  Arrived();
  Impl& self = *running;
  for (;;) {
    (*self.body_)();
    Fibre stack = self.current_->fibre;
    self.End(*self.current_);
    Thread* const next = self.Draw();
    if (next != nullptr && next->fibre.stack_pointer == nullptr) {
      next->fibre = stack;
      self.MakeCurrent(*next);
      continue;
    }
    self.stacks_.Release(stack);
    if (next != nullptr) self.MakeCurrent(*next);
    if (next == nullptr && self.alive_ > 0) self.error_ = self.Deadlock();
    Switch(stack, next != nullptr ? next->fibre : self.caller_, true);
  }
}

void BlockRunner::Impl::End(Thread& thread) {
  thread.fibre.stack_pointer = nullptr;
  --alive_;
  Warp& warp = warps_[thread.number / kWarpSize];
  warp.alive &= ~(1u << (thread.number % kWarpSize));
  // Others may have waited for this one only.
  const Thread* const lanes = &threads_[thread.number - thread.number % 32];
  for (int lane = 0; lane < kWarpSize && warp.waiting != 0; ++lane) {
    if ((warp.waiting >> lane & 1) != 0) TryCollective(warp, lanes[lane].mask);
  }
  TryBarrier();
}

Thread* BlockRunner::Impl::Draw() {
  if (runnable_.empty()) return nullptr;
  uint32_t& slot =
      runnable_[random_.Below(static_cast<uint32_t>(runnable_.size()))];
  Thread* const drawn = &threads_[slot];
  slot = runnable_.back();
  runnable_.pop_back();
  return drawn;
}

void BlockRunner::Impl::MakeCurrent(Thread& thread) {
  current_ = &thread;
  place.thread = thread.index;
}

// Leaves the running thread, which is runnable or waits.
void BlockRunner::Impl::Wait() {
  Thread& self = *current_;
  Thread* const next = Draw();
  if (next == nullptr) {
    error_ = Deadlock();
    Abandon();
  }
  if (next == &self) return;
  if (next->fibre.stack_pointer == nullptr) {
    next->fibre = stacks_.Take(FibreMain);
  }
  MakeCurrent(*next);
  Switch(self.fibre, next->fibre);
}

uint64_t BlockRunner::Impl::Collect(Collective kind, unsigned mask,
                                    uint64_t value, int source) {
  Thread& self = *current_;
  const unsigned bit = 1u << lane();
  if ((mask & bit) == 0) {
    Fail("a warp operation whose mask leaves out the lane that calls it");
  }
  Warp& warp = warps_[self.number / kWarpSize];
  self.kind = kind;
  self.mask = mask;
  self.value = value;
  self.source = source;
  warp.waiting |= bit;
  TryCollective(warp, mask);
  Wait();
  return self.value;
}

const char* BlockRunner::Impl::CheckCollective(const Thread* lanes,
                                               unsigned mask) {
  const Thread& first = lanes[std::countr_zero(mask)];
  for (unsigned left = mask; left != 0; left &= left - 1) {
    const Thread& lane = lanes[std::countr_zero(left)];
    if (lane.kind != first.kind) {
      return "lanes of one warp are at different warp operations";
    }
    if (lane.mask != first.mask) {
      return "lanes of one warp operation give different masks";
    }
  }
  return nullptr;
}

// Ends the collective of `mask` if all of its lanes that are left are here.
void BlockRunner::Impl::TryCollective(Warp& warp, unsigned mask) {
  const unsigned lanes_left = mask & warp.alive;
  if ((warp.waiting & lanes_left) != lanes_left) return;
  Thread* const lanes =
      &threads_[static_cast<size_t>(&warp - warps_.data()) * kWarpSize];
  if (const char* wrong = CheckCollective(lanes, lanes_left)) {
    Fail(wrong);
  }
  const Collective kind = lanes[std::countr_zero(lanes_left)].kind;
  uint64_t brought[kWarpSize];
  uint64_t ballot = 0;
  for (unsigned left = lanes_left; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    brought[lane] = lanes[lane].value;
    ballot |= uint64_t{brought[lane] != 0} << lane;
  }
  if (kind == Collective::kTogether) Act(brought, lanes_left);
  for (unsigned left = lanes_left; left != 0; left &= left - 1) {
    Thread& thread = lanes[std::countr_zero(left)];
    const bool known = (lanes_left >> (thread.source & 31) & 1) != 0;
    thread.value = kind == Collective::kBallot ? ballot
                   : known                     ? brought[thread.source & 31]
                                               : ~uint64_t{0};
    thread.kind = Collective::kNone;
    runnable_.push_back(thread.number);
  }
  warp.waiting &= ~lanes_left;
}

void BlockRunner::Impl::Act(const uint64_t (&brought)[kWarpSize],
                            unsigned lanes_left) {
  if (lanes_left != ~0u) Fail("an operation of a whole warp lacks lanes");
  void* mine[kWarpSize];
  const auto act = FromBits<WarpAction*>(brought[0])->act;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& action = *FromBits<WarpAction*>(brought[lane]);
    if (action.act != act) {
      Fail("lanes of one warp are at different warp operations");
    }
    mine[lane] = action.mine;
  }
  act(mine);
}

void BlockRunner::Impl::BeginCopy(const Copy& copy) {
  CheckShared(copy.to, copy.bytes);
  if (reinterpret_cast<uintptr_t>(copy.from) % copy.bytes != 0) {
    Fail("an asynchronous copy from an address that is not aligned to it");
  }
  std::memset(copy.to, 0xFF, copy.bytes);
  current_->copies.push_back(copy);
}

void BlockRunner::Impl::WaitForCopies() {
  for (const Copy& copy : current_->copies) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, copy.bytes);
    } else {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
  current_->copies.clear();
}

void BlockRunner::Impl::CheckShared(const void* at, int bytes) {
  const char* const first = static_cast<const char*>(at);
  if (reinterpret_cast<uintptr_t>(at) % bytes != 0) {
    Fail("an access to shared memory that is not aligned");
  }
  for (const std::span<char> part : shared_) {
    if (first >= part.data() && first + bytes <= part.data() + part.size()) {
      return;
    }
  }
  Fail("an access to shared memory outside of the block's");
}

int BlockRunner::Impl::Barrier(bool predicate) {
  predicates_ += predicate ? 1 : 0;
  at_barrier_.push_back(current_->number);
  TryBarrier();
  Wait();
  // Nobody can end another barrier before all have left this one.
  return barrier_result_;
}

void BlockRunner::Impl::TryBarrier() {
  if (at_barrier_.empty() || at_barrier_.size() < alive_) return;
  runnable_.insert(runnable_.end(), at_barrier_.begin(), at_barrier_.end());
  at_barrier_.clear();
  barrier_result_ = predicates_;
  predicates_ = 0;
}

std::string BlockRunner::Impl::Deadlock() const {
  std::string text = "deadlock: of " + std::to_string(threads_.size()) +
                     " threads " + std::to_string(threads_.size() - alive_) +
                     " have ended, " + std::to_string(at_barrier_.size()) +
                     " wait at a barrier";
  for (const Thread& thread : threads_) {
    const Warp& warp = warps_[thread.number / kWarpSize];
    if ((warp.waiting >> (thread.number % kWarpSize) & 1) == 0) continue;
    return text + ", others in a warp operation, such as thread " +
           Text(thread.index);
  }
  return text;
}

void BlockRunner::Impl::Fail(const char* text) {
  error_ = text;
  Abandon();
}

void BlockRunner::Impl::Abandon() {
  Switch(current_->fibre, caller_);
  std::abort();  // The block is over; nobody comes back here.
}

BlockRunner::BlockRunner(Random& random)
    : impl_(std::make_unique<Impl>(random)) {}

BlockRunner::~BlockRunner() = default;

std::string BlockRunner::Run(const dim3& grid, const dim3& block,
                             const uint3& index, size_t shared_bytes,
                             const std::function<void()>& thread,
                             const std::vector<std::span<char>>& shared) {
  place.grid_dim = grid;
  place.block_dim = block;
  place.block = index;
  std::memset(gimbal_shared, 0xFF, shared_bytes);
  for (std::span<char> variable : shared) Forget(variable);
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(gimbal_shared + shared_bytes,
                              kMaxSharedBytes - shared_bytes);
#endif
  std::vector<std::span<char>> all = shared;
  all.emplace_back(reinterpret_cast<char*>(gimbal_shared), shared_bytes);
  running = impl_.get();
  std::string error = impl_->Run(block, thread, std::move(all));
  running = nullptr;
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(gimbal_shared, kMaxSharedBytes);
#endif
  if (!error.empty()) error = "block " + Text(index) + ": " + error;
  return error;
}

uint64_t WarpCollective(Collective kind, unsigned mask, uint64_t value,
                        int source) {
  return Running().Collect(kind, mask, value, source);
}

int BlockBarrier(bool predicate) { return Running().Barrier(predicate); }

void WarpTogether(void (*act)(void* const* lanes), void* mine) {
  WarpAction action = {act, mine};
  Running().Collect(Collective::kTogether, ~0u, ToBits(&action), 0);
}

void BeginCopy(void* to, const void* from, int bytes) {
  Running().BeginCopy({to, from, bytes});
}

void WaitForCopies() { Running().WaitForCopies(); }

void CheckShared(const void* at, int bytes) {
  Running().CheckShared(at, bytes);
}

int LaneId() { return Running().lane(); }

void Trap() { Running().Fail("the kernel called __trap()"); }

}  // namespace gimbal::cuda_host
