// A file of RUN_DIR/trace: what one worker process recorded between a start and
// the next stop.
//
//   {"format":"gimbal-trace","version":1,"run":...,"worker":...,"pid":...,
//    "clock":...}\n
//   spans of 32 bytes (span.h), in the order in which they were written
//
// A file is only ever appended to; the last span of one whose writer was killed
// may be cut off.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/trace/span.h"

namespace gimbal::trace {

inline constexpr char kTraceSuffix[] = ".trace";
inline constexpr char kTraceFormat[] = "gimbal-trace";
inline constexpr int kTraceVersion = 1;

struct TraceHeader {
  std::string run;
  std::string worker;
  int64_t pid = 0;
  // The process's own (ClockId): a container that is started again may have the
  // same pid.
  int64_t clock = 0;
};

struct TraceContent {
  TraceHeader header;
  std::vector<Span> spans;
  // What follows them and is no span; empty: nothing does.
  std::string damage;
};

class TraceFile {
 public:
  // Makes the folder, and in it a new file that is named after the time, the
  // worker and its pid.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Create(
      const std::string& folder, const TraceHeader& header);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  absl::Status Append(std::span<const Span> spans);
  int64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  TraceFile(std::string path, int fd);
  absl::Status Write(const void* data, size_t size);

  const std::string path_;
  const int fd_;
  int64_t bytes_ = 0;
};

// Whole spans up to the first that cannot be one. DATA_LOSS, naming what is
// wrong, when the file is no trace.
absl::StatusOr<TraceContent> ReadTraceFile(const std::string& path);

}  // namespace gimbal::trace
