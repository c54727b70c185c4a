#include "common/trace/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::trace {
namespace {

constexpr char kFormat[] = "gimbal-trace";
constexpr int kVersion = 1;

// A name that an operator chose, as part of a file's name.
std::string FileName(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

absl::StatusOr<TraceHeader> ParseHeader(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || json.value("format", "") != kFormat) {
    return absl::DataLossError("it does not begin as a trace of gimbal does");
  }
  if (json.value("version", 0) != kVersion) {
    return absl::DataLossError(
        absl::StrCat("it is of version ", json.value("version", 0),
                     ", this program reads version ", kVersion));
  }
  return TraceHeader{.run = json.value("run", ""),
                     .worker = json.value("worker", ""),
                     .pid = json.value("pid", int64_t{0}),
                     .clock = json.value("clock", int64_t{0})};
}

absl::StatusOr<TraceContent> Parse(const std::string& text) {
  const size_t line = text.find('\n');
  if (line == std::string::npos) {
    return absl::DataLossError("its first line is not whole");
  }
  TraceContent content;
  GIMBAL_ASSIGN_OR_RETURN(content.header, ParseHeader(text.substr(0, line)));
  // A span that was cut off is left out.
  content.spans.resize((text.size() - line - 1) / sizeof(Span));
  std::memcpy(content.spans.data(), text.data() + line + 1,
              content.spans.size() * sizeof(Span));
  return content;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(
    const std::string& folder, const TraceHeader& header) {
  GIMBAL_RETURN_IF_ERROR(io::MakeFolders(folder));
  const auto milliseconds =
      static_cast<int64_t>(base::Clock::Real().UnixSeconds() * 1000);
  const std::string path =
      absl::StrCat(folder, "/", milliseconds, "-", FileName(header.worker), "-",
                   header.pid, kTraceSuffix);
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  }
  std::unique_ptr<TraceFile> file(new TraceFile(path, fd));
  const nlohmann::ordered_json json = {
      {"format", kFormat}, {"version", kVersion},
      {"run", header.run}, {"worker", header.worker},
      {"pid", header.pid}, {"clock", header.clock}};
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

absl::StatusOr<TraceContent> ReadTraceFile(const std::string& path) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  auto content = Parse(text);
  if (content.ok()) return content;
  return absl::Status(
      content.status().code(),
      absl::StrCat(path, ": ", absl::string_view(content.status().message())));
}

}  // namespace gimbal::trace
