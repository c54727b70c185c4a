// RUN_DIR/metrics.jsonl: one object per update, in order. Numbers are printed
// with the fewest digits that read back to the same double, so equal numbers
// give equal bytes; `seconds` is the only value that depends on time.
//
// Rows are collected and written by Flush; the caller flushes at least every
// second. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/io/unique_fd.h"
#include "coordinator/ledger/metrics_row.h"

namespace gimbal::coordinator {

// A line without its end.
std::string ToJson(const MetricsRow& row);
// INVALID_ARGUMENT with what is wrong.
absl::StatusOr<MetricsRow> ParseMetricsRow(const std::string& line);

class MetricsFile {
 public:
  // Opens or creates the file.
  static absl::StatusOr<MetricsFile> Open(const std::string& path);

  void Append(const MetricsRow& row);
  absl::Status Flush();
  // Flushes and reaches the disk.
  absl::Status Sync();

  // The rows 1, 2, ... up to the first that is not there or cannot be read.
  absl::StatusOr<std::vector<MetricsRow>> Rows();
  // Drops the rows beyond update `last`, a torn last line too, and returns the
  // rows 1 to `last`. DATA_LOSS, naming the line, when they are not all there
  // or cannot be read; then nothing is dropped.
  absl::StatusOr<std::vector<MetricsRow>> Keep(int64_t last);

 private:
  MetricsFile(std::string path, io::UniqueFd fd)
      : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  io::UniqueFd fd_;
  std::string pending_;
};

}  // namespace gimbal::coordinator
