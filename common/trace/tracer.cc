#include "common/trace/tracer.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace gimbal::trace {
namespace {

// Rings are emptied so often: they hold several times as much.
constexpr std::chrono::milliseconds kWriteEvery{100};

}  // namespace

Tracer::Tracer() {
  thread_ = std::thread([this] { Loop(); });
}

Tracer::~Tracer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Tracer::Set(const TraceSetting& setting, const TraceHeader& header) {
  std::lock_guard lock(mutex_);
  if (setting == setting_) return;
  setting_ = setting;
  header_ = header;
  failure_.clear();
  set_ = true;
  SetRecorders();
  changed_.notify_all();
}

bool Tracer::on() const {
  std::lock_guard lock(mutex_);
  return Every() > 0;
}

std::string Tracer::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

int64_t Tracer::Every() const { return failure_.empty() ? setting_.every : 0; }

void Tracer::SetRecorders() {
  for (const auto& recorder : recorders_) recorder->SetEvery(Every());
}

std::shared_ptr<Recorder> Tracer::NewRecorder(int stage) {
  auto recorder = std::make_shared<Recorder>(stage);
  std::lock_guard lock(mutex_);
  recorder->SetEvery(Every());
  recorders_.push_back(recorder);
  return recorder;
}

void Tracer::AddClockSample(const ClockSample& sample) {
  std::lock_guard lock(mutex_);
  if (Every() == 0) return;
  samples_.push_back({.index = sample.clock, .kind = SpanKind::kClockOf});
  samples_.push_back({.begin_ns = sample.at_ns,
                      .end_ns = sample.offset_ns,
                      .index = sample.uncertainty_ns,
                      .kind = SpanKind::kClock});
}

void Tracer::Loop() {
  for (bool last = false; !last;) {
    std::unique_lock lock(mutex_);
    const auto awake = [&] { return stopping_ || set_; };
    if (file_ == nullptr) {
      changed_.wait(lock, awake);
    } else {
      changed_.wait_for(lock, kWriteEvery, awake);
    }
    last = stopping_;
    const bool set = std::exchange(set_, false);
    const TraceSetting setting = setting_;
    const TraceHeader header = header_;
    TakeSpans();
    lock.unlock();

    absl::Status status;
    if (set) status = Reopen(setting, header);
    if (status.ok()) status = WriteTaken(setting.max_bytes);
    if (!status.ok()) GiveUp(status);
  }
}

void Tracer::TakeSpans() {
  taken_.swap(samples_);
  samples_.clear();
  for (std::shared_ptr<Recorder>& recorder : recorders_) {
    // Whose stage is gone has nothing more to come.
    const bool gone = recorder.use_count() == 1;
    recorder->ring().TakeAll(taken_);
    if (const int64_t lost = recorder->ring().TakeLost(); lost > 0) {
      taken_.push_back({.begin_ns = ClockNs(base::Clock::Real().Now()),
                        .index = lost,
                        .kind = SpanKind::kLost});
    }
    if (gone) recorder.reset();
  }
  std::erase(recorders_, nullptr);
}

// What was taken is of the file that ends, if there is one; else of the one
// that begins, whose recording has begun already.
absl::Status Tracer::Reopen(const TraceSetting& setting,
                            const TraceHeader& header) {
  if (file_ != nullptr) {
    // Nobody waits for a file that is over.
    WriteTaken(setting.max_bytes).IgnoreError();
    file_.reset();
  }
  if (setting.every == 0) return absl::OkStatus();
  GIMBAL_ASSIGN_OR_RETURN(file_, TraceFile::Create(setting.folder, header));
  return absl::OkStatus();
}

absl::Status Tracer::WriteTaken(int64_t max_bytes) {
  const std::vector<Span> spans = std::exchange(taken_, {});
  if (file_ == nullptr) return absl::OkStatus();
  if (file_->bytes() >= max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        file_->path(), " has reached trace.max_mb (", max_bytes >> 20, ")"));
  }
  return file_->Append(spans);
}

void Tracer::GiveUp(const absl::Status& why) {
  base::LogWarning(absl::StrCat(
      "no trace is recorded any more, training goes on: ",
      absl::string_view(why.message()),
      "; `gimbal trace stop` and `gimbal trace start` begin another one"));
  file_.reset();
  std::lock_guard lock(mutex_);
  failure_ = std::string(why.message());
  SetRecorders();
}

}  // namespace gimbal::trace
