// The trace of one process: recorders for its stages, and a thread that writes
// what they hold to a file, behind training. When the file cannot be written
// (a full disk, a read-only folder) or is full it says so once, and records
// nothing before the next start.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/trace/clock.h"
#include "common/trace/recorder.h"
#include "common/trace/trace_file.h"

namespace gimbal::trace {

struct TraceSetting {
  int64_t every = 0;  // of so many updates one is recorded; 0: none
  std::string folder;
  int64_t max_bytes = 0;

  friend bool operator==(const TraceSetting&, const TraceSetting&) = default;
};

// Thread-safe.
class Tracer {
 public:
  Tracer();
  // Writes what there is.
  ~Tracer();

  // From now on; the same again changes nothing. `header` goes into the file
  // that a start makes.
  void Set(const TraceSetting& setting, const TraceHeader& header);
  bool on() const;
  // Why nothing is recorded though it was set; empty: it is, or was not set.
  std::string failure() const;

  // Lives as long as somebody has it.
  std::shared_ptr<Recorder> NewRecorder(int stage);
  void AddClockSample(const ClockSample& sample);

 private:
  void Loop();
  int64_t Every() const;  // requires the lock
  void SetRecorders();    // likewise
  void TakeSpans();       // likewise
  absl::Status Reopen(const TraceSetting& setting, const TraceHeader& header);
  absl::Status WriteTaken(int64_t max_bytes);
  void GiveUp(const absl::Status& why);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  TraceSetting setting_;
  TraceHeader header_;
  bool set_ = false;     // and the thread has not seen it
  std::string failure_;  // of this setting
  bool stopping_ = false;
  std::vector<std::shared_ptr<Recorder>> recorders_;
  std::vector<Span> samples_;
  // The thread's:
  std::unique_ptr<TraceFile> file_;
  std::vector<Span> taken_;
  std::thread thread_;
};

}  // namespace gimbal::trace
