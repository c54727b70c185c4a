#include "tests/cuda_host/device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "tests/cuda_host/memory.h"

namespace gimbal::cuda_host {
namespace {

uint64_t SeedFromEnvironment() {
  const char* text = std::getenv("GIMBAL_CUDA_HOST_SEED");
  return text != nullptr ? std::stoull(text) : 1;
}

}  // namespace

void SetSeed(uint64_t seed) { Device::Get().Reseed(seed); }

Device& Device::Get() {
  // Never destroyed: its thread may be busy at exit.
  static Device* const device = new Device;
  return *device;
}

Device::Device() : random_(SeedFromEnvironment()) {
  Memory::Get();  // Before the thread, which inherits the right to touch it.
  std::thread([this] { Loop(); }).detach();
}

void Device::Reseed(uint64_t seed) {
  std::lock_guard lock(mutex_);
  random_ = Random(seed);
}

void Device::Wake() {
  std::lock_guard lock(mutex_);
  work_.notify_one();
}

cudaError_t Device::sticky_error() {
  std::lock_guard lock(mutex_);
  return sticky_;
}

void Device::Loop() {
  AllowDeviceMemory(true);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (CUstream_st* stream = Draw()) {
      if (idle_) Dawdle(lock);
      idle_ = false;
      Run(*stream, lock);
      continue;
    }
    idle_ = true;
    asked_ = false;
    work_.wait(lock);
  }
}

// Gives the host time to run ahead and be wrong about what is done.
void Device::Dawdle(std::unique_lock<std::mutex>& lock) {
  if (random_.Below(2) == 0) return;
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(random_.Below(1000));
  while (waiting_ == 0 && !asked_ &&
         work_.wait_until(lock, until) != std::cv_status::timeout) {
  }
}

// Mostly the favourite of the moment, sometimes any.
CUstream_st* Device::Draw() {
  std::vector<CUstream_st*> ready;
  for (const auto& stream : streams_) {
    if (!stream->queue.empty() && stream->queue.front().operation->Ready()) {
      ready.push_back(stream.get());
    }
  }
  if (ready.size() < 2) return ready.empty() ? nullptr : ready[0];
  const bool again = random_.Below(16) == 0;
  for (const auto& stream : streams_) {
    if (again || stream->rank == 0) stream->rank = 1 + random_.Below(1u << 30);
  }
  if (random_.Below(4) == 0) {
    return ready[random_.Below(static_cast<uint32_t>(ready.size()))];
  }
  return *std::min_element(
      ready.begin(), ready.end(),
      [](const auto* a, const auto* b) { return a->rank < b->rank; });
}

void Device::Run(CUstream_st& stream, std::unique_lock<std::mutex>& lock) {
  Operation& operation = *stream.queue.front().operation;
  lock.unlock();
  const bool done = operation.Step(random_);
  lock.lock();
  if (!done) return;
  const std::string error = operation.Error();
  if (!error.empty()) return Fault(error);
  stream.queue.front().completion->time = std::chrono::steady_clock::now();
  stream.queue.front().completion->done = true;
  CUstream_st::Entry ended = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (stream.queue.empty() && stream.destroyed) {
    std::erase_if(streams_, [&](const auto& s) { return s.get() == &stream; });
  }
  progress_.notify_all();
  // What it holds goes without the lock: it may come back here.
  lock.unlock();
  ended = {};
  lock.lock();
}

void Device::Fault(const std::string& text) {
  std::fprintf(stderr, "cuda_host: %s\n", text.c_str());
  sticky_ = cudaErrorLaunchFailure;
  for (const auto& stream : streams_) {
    for (auto& entry : stream->queue) entry.completion->done = true;
    stream->queue.clear();
  }
  progress_.notify_all();
}

}  // namespace gimbal::cuda_host
