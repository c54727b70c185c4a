#include "common/trace/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::trace {
namespace {

constexpr int kNames = 1000;

// A name that an operator chose, as part of a file's name.
std::string FileName(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(
    const std::string& folder, const TraceHeader& header) {
  GIMBAL_RETURN_IF_ERROR(io::MakeFolders(folder));
  const auto milliseconds =
      static_cast<int64_t>(base::Clock::Real().UnixSeconds() * 1000);
  std::string path;
  int fd = -1;
  // A trace that begins in the millisecond of the one before takes the next.
  for (int i = 0; i < kNames && fd < 0; ++i) {
    path = absl::StrCat(folder, "/", milliseconds + i, "-",
                        FileName(header.worker), "-", header.pid, kTraceSuffix);
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  }
  std::unique_ptr<TraceFile> file(new TraceFile(path, fd));
  const nlohmann::ordered_json json = {
      {"format", kTraceFormat}, {"version", kTraceVersion},
      {"run", header.run},      {"worker", header.worker},
      {"pid", header.pid},      {"clock", header.clock}};
  const std::string line =
      json.dump(-1, ' ', false,
                nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  GIMBAL_RETURN_IF_ERROR(file->Write(line.data(), line.size()));
  return file;
}

TraceFile::TraceFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}
TraceFile::~TraceFile() { close(fd_); }

absl::Status TraceFile::Append(std::span<const Span> spans) {
  return Write(spans.data(), spans.size_bytes());
}

absl::Status TraceFile::Write(const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = write(fd_, next, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
    }
    next += wrote;
    size -= static_cast<size_t>(wrote);
    bytes_ += wrote;
  }
  return absl::OkStatus();
}

}  // namespace gimbal::trace
