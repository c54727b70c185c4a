// A device for tests of links, in the host's memory: memory whose addresses the
// host cannot follow, and channels between ends in one process, which a test
// can let fail.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "worker/compute/memory.h"
#include "worker/transport/payload_channel.h"

namespace gimbal::test_support {

class FakeDeviceMemory final : public compute::Memory {
 public:
  std::byte* Allocate(int64_t bytes) override {
    ++allocated;
    return Flip(compute::HeapMemory().Allocate(bytes));
  }
  void Free(std::byte* data, int64_t bytes) override {
    --allocated;
    compute::HeapMemory().Free(Flip(data), bytes);
  }
  bool on_device() const override { return true; }
  void ToHost(const std::byte* from, int64_t bytes, std::byte* host) override {
    compute::HeapMemory().ToHost(Flip(from), bytes, host);
  }
  void FromHost(const std::byte* host, int64_t bytes, std::byte* to) override {
    compute::HeapMemory().FromHost(host, bytes, Flip(to));
  }

  // To and from an address that no processor takes.
  static std::byte* Flip(const std::byte* data) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(data) ^
                                        (uintptr_t{1} << 62));
  }

  std::atomic<int> allocated = 0;
};

// Each end is one of two of the same id. A transfer ends when both are at it.
class FakeChannels final : public worker::PayloadChannels {
 public:
  absl::StatusOr<worker::ChannelId> NewId() override {
    std::string id = "channel " + std::to_string(++made);
    id.resize(worker::kChannelIdBytes);
    return id;
  }
  std::unique_ptr<worker::PayloadChannel> Make(
      const worker::ChannelOptions& options) override {
    return std::make_unique<Channel>(*this, options);
  }

  std::atomic<int> made = 0, transfers = 0;
  // So many of the next transfers and openings fail.
  std::atomic<int> fails = 0;

 private:
  struct Pair {
    int ends = 0;
    const std::byte* sent = nullptr;
    int64_t bytes = 0;
  };

  class Channel final : public worker::PayloadChannel {
   public:
    Channel(FakeChannels& all, const worker::ChannelOptions& options)
        : all_(all), options_(options) {}

    absl::Status Open() override {
      std::unique_lock lock(all_.mutex_);
      if (Fails()) return absl::UnavailableError("the opening failed");
      Pair& pair = all_.pairs_[options_.id];
      ++pair.ends;
      return Await(lock, [&] { return pair.ends == 2; });
    }
    absl::Status Transfer(std::byte* payload, int64_t bytes) override {
      std::unique_lock lock(all_.mutex_);
      if (Fails()) return absl::UnavailableError("the transfer failed");
      Pair& pair = all_.pairs_[options_.id];
      if (options_.sends) {
        pair.sent = payload;
        pair.bytes = bytes;
        const absl::Status status =
            Await(lock, [&] { return pair.sent == nullptr; });
        pair.sent = nullptr;
        return status;
      }
      const absl::Status status =
          Await(lock, [&] { return pair.sent != nullptr; });
      if (!status.ok()) return status;
      if (pair.bytes != bytes) return absl::InternalError("another size");
      compute::HeapMemory().ToHost(FakeDeviceMemory::Flip(pair.sent), bytes,
                                   FakeDeviceMemory::Flip(payload));
      pair.sent = nullptr;
      ++all_.transfers;
      return absl::OkStatus();
    }

   private:
    bool Fails() {
      if (all_.fails <= 0) return false;
      --all_.fails;
      return true;
    }
    template <typename Done>
    absl::Status Await(std::unique_lock<std::mutex>& lock, Done done) {
      const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
      all_.changed_.notify_all();
      while (!done()) {
        if (options_.over()) return absl::UnavailableError("over");
        if (std::chrono::steady_clock::now() > deadline) {
          return absl::DeadlineExceededError("the other end is not there");
        }
        all_.changed_.wait_for(lock, std::chrono::milliseconds(1));
      }
      all_.changed_.notify_all();
      return absl::OkStatus();
    }

    FakeChannels& all_;
    const worker::ChannelOptions options_;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Pair> pairs_;
};

}  // namespace gimbal::test_support
