#include "worker/transport/cuda/nccl_channels.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "worker/compute/cuda/memory.h"
#include "worker/transport/call_watch.h"
#include "worker/transport/cuda/nccl_api.h"

namespace gimbal::worker {
namespace {

using std::chrono::microseconds;

static_assert(sizeof(ncclUniqueId) == kChannelIdBytes);

constexpr int kSender = 0, kReceiver = 1;
// Between two looks at what is awaited: short for what takes as long as a
// transfer does, growing for what takes longer.
constexpr microseconds kFirstLook{10}, kLastLook{500};

NcclApi api;  // filled in by FindNccl

Nccl Search() {
  Nccl nccl{.missing = LoadNcclApi(&api)};
  if (!nccl.missing.empty()) return nccl;
  int version = 0;
  api.GetVersion(&version);
  // NVIDIA advises against them: an abort may hang.
  if (version >= 22803 && version <= 22808) {
    nccl.missing = absl::StrFormat(
        "NCCL %d.%d.%d does not recover from a lost peer: install 2.28.9 or "
        "newer",
        version / 10000, version / 100 % 100, version % 100);
  } else {
    nccl.version = version;
  }
  return nccl;
}

class NcclChannel final : public PayloadChannel {
 public:
  NcclChannel(int device, ChannelOptions options)
      : device_(device), options_(std::move(options)) {}
  ~NcclChannel() override { Abort(); }

  absl::Status Open() override;
  absl::Status Transfer(std::byte* payload, int64_t bytes) override;

 private:
  CallWatch Watch(const char* call) const {
    return {absl::StrCat(options_.name, ": ", call), options_.timeout,
            options_.stuck};
  }
  absl::Status Use(const std::byte* payload, int64_t bytes);
  // Waits until the communicator has done what it was told and `done` holds.
  template <typename Done>
  absl::Status Await(const char* what, Done done);
  absl::Status Look();
  absl::Status Failed(const char* call, ncclResult_t result) const;
  // Waits until no device works for the communicator any more.
  void Abort();

  const int device_;
  const ChannelOptions options_;
  ncclComm_t comm_ = nullptr;
  std::optional<compute::cuda::Stream> stream_;
  std::optional<compute::cuda::Event> done_;
};

absl::Status NcclChannel::Failed(const char* call, ncclResult_t result) const {
  std::string text =
      absl::StrCat(options_.name, ": ", call, ": ", api.GetErrorString(result));
  const char* last = api.GetLastError(comm_);
  if (last != nullptr && *last != '\0') absl::StrAppend(&text, " (", last, ")");
  return absl::UnavailableError(text);
}

absl::Status NcclChannel::Look() {
  if (options_.over()) {
    return absl::UnavailableError(
        absl::StrCat(options_.name, ": the connection is over"));
  }
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = api.CommGetAsyncError(comm_, &state);
  if (asked != ncclSuccess) return Failed("ncclCommGetAsyncError", asked);
  if (state == ncclInProgress) return absl::OutOfRangeError("not yet");
  return state == ncclSuccess ? absl::OkStatus() : Failed("NCCL", state);
}

template <typename Done>
absl::Status NcclChannel::Await(const char* what, Done done) {
  const base::SteadyTime deadline =
      base::Clock::Real().Now() + options_.timeout;
  for (microseconds pause = kFirstLook;;
       pause = std::min(pause * 2, kLastLook)) {
    const absl::Status state = Look();
    if (!state.ok() && !absl::IsOutOfRange(state)) return state;
    if (state.ok() && done()) return state;
    if (base::Clock::Real().Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(options_.name, ": ", what, " took longer than ",
                       options_.timeout.count(), " ms (cluster.link_timeout)"));
    }
    std::this_thread::sleep_for(pause);
  }
}

absl::Status NcclChannel::Open() {
  GIMBAL_CUDA_CHECK(cudaSetDevice(device_));
  stream_.emplace();
  done_.emplace();
  ncclUniqueId id;
  std::memcpy(id.internal, options_.id.data(), sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t begun = ncclSuccess;
  {
    const CallWatch watch = Watch("ncclCommInitRankConfig");
    begun = api.CommInitRankConfig(
        &comm_, 2, id, options_.sends ? kSender : kReceiver, &config);
  }
  absl::Status opened;
  if (begun != ncclSuccess && begun != ncclInProgress) {
    opened = Failed("ncclCommInitRankConfig", begun);
  } else {
    opened = Await("the making of a communicator", [] { return true; });
  }
  if (!opened.ok()) Abort();
  return opened;
}

absl::Status NcclChannel::Transfer(std::byte* payload, int64_t bytes) {
  const absl::Status status = Use(payload, bytes);
  if (!status.ok()) Abort();
  return status;
}

absl::Status NcclChannel::Use(const std::byte* payload, int64_t bytes) {
  const auto count = static_cast<size_t>(bytes);
  void* const to = const_cast<std::byte*>(payload);
  ncclResult_t begun = ncclSuccess;
  {
    const CallWatch watch = Watch(options_.sends ? "ncclSend" : "ncclRecv");
    begun = options_.sends ? api.Send(payload, count, ncclUint8, kReceiver,
                                      comm_, stream_->get())
                           : api.Recv(to, count, ncclUint8, kSender, comm_,
                                      stream_->get());
  }
  if (begun != ncclSuccess && begun != ncclInProgress) {
    return Failed(options_.sends ? "ncclSend" : "ncclRecv", begun);
  }
  // Not before it is in the stream.
  GIMBAL_RETURN_IF_ERROR(Await("a transfer", [] { return true; }));
  done_->Record(*stream_);
  return Await("a transfer", [this] { return done_->Passed(); });
}

void NcclChannel::Abort() {
  if (comm_ == nullptr) return;
  const CallWatch watch = Watch("ncclCommAbort");
  api.CommAbort(std::exchange(comm_, nullptr));
  cudaStreamSynchronize(stream_->get());
}

class NcclChannels final : public PayloadChannels {
 public:
  explicit NcclChannels(int device) : device_(device) {}

  absl::StatusOr<ChannelId> NewId() override {
    GIMBAL_CUDA_CHECK(cudaSetDevice(device_));
    ncclUniqueId id;
    const ncclResult_t result = api.GetUniqueId(&id);
    if (result != ncclSuccess) {
      return absl::UnavailableError(
          absl::StrCat("ncclGetUniqueId: ", api.GetErrorString(result), " (",
                       api.GetLastError(nullptr), ")"));
    }
    return ChannelId(id.internal, sizeof id.internal);
  }
  std::unique_ptr<PayloadChannel> Make(const ChannelOptions& options) override {
    return std::make_unique<NcclChannel>(device_, options);
  }

 private:
  const int device_;
};

}  // namespace

const Nccl& FindNccl() {
  static const Nccl nccl = Search();
  return nccl;
}

std::unique_ptr<PayloadChannels> MakeNcclChannels(int device) {
  return std::make_unique<NcclChannels>(device);
}

}  // namespace gimbal::worker
