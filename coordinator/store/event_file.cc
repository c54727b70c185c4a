#include "coordinator/store/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::coordinator {
namespace {

std::string LineOf(const StoredDecision& decision) {
  nlohmann::ordered_json json = {{"unix_seconds", decision.unix_seconds},
                                 {"what", decision.what},
                                 {"reason", decision.reason}};
  if (decision.update) json["update"] = *decision.update;
  if (decision.generation > 0) json["generation"] = decision.generation;
  // Reasons may quote bytes of a bad file.
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::optional<StoredDecision> ParseLine(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto seconds = json.find("unix_seconds");
  const auto what = json.find("what");
  const auto reason = json.find("reason");
  if (seconds == json.end() || !seconds->is_number() || what == json.end() ||
      !what->is_string() || reason == json.end() || !reason->is_string()) {
    return std::nullopt;
  }
  return StoredDecision{
      .unix_seconds = *seconds, .what = *what, .reason = *reason};
}

// Of the whole lines the last one that is a decision.
std::optional<StoredDecision> Newest(const std::string& text) {
  size_t end = text.rfind('\n');
  while (end != std::string::npos) {
    const size_t before = end == 0 ? end : text.rfind('\n', end - 1);
    const bool first = end == 0 || before == std::string::npos;
    const size_t begin = first ? 0 : before + 1;
    const auto decision = ParseLine(text.substr(begin, end - begin));
    if (decision || first) return decision;
    end = before;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Open(const std::string& path) {
  io::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  const size_t whole = text.rfind('\n') + 1;  // 0 where there is none
  if (whole < text.size() &&
      ftruncate(fd.get(), static_cast<off_t>(whole)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot truncate ", path));
  }
  return EventFile(path, std::move(fd), whole);
}

void EventFile::Append(const StoredDecision& decision) {
  const std::string line = LineOf(decision);
  const ssize_t written = write(fd_.get(), line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) {
    size_ += line.size();
    return;
  }
  const int error = written < 0 ? errno : ENOSPC;
  // Or the next line would go on where this one breaks off.
  const bool cut = ftruncate(fd_.get(), static_cast<off_t>(size_)) == 0;
  base::LogWarning(
      absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path_,
                                              cut ? "" : ", nor cut it"))
          .ToString());
}

absl::Status EventFile::AppendMissing(const StoredDecision& decision) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path_));
  if (!absl::StrContains(text, LineOf(decision))) Append(decision);
  return absl::OkStatus();
}

absl::Status CheckNothingForgotten(const std::string& run_dir,
                                   RunStore& store) {
  const std::string path = run_dir + "/events.jsonl";
  if (access(path.c_str(), F_OK) != 0) return absl::OkStatus();
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path));
  const std::optional<StoredDecision> newest = Newest(text);
  if (!newest) return absl::OkStatus();
  GIMBAL_ASSIGN_OR_RETURN(const bool held, store.Holds(*newest));
  if (held) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      run_dir, "/coordinator.db: has forgotten the newest decision of ", path,
      " ('", newest->what,
      "') and perhaps others that decide the numbers: the "
      "file, or coordinator.db-wal beside it, is damaged, gone or an older "
      "copy; put both back from a copy of the run folder. `gimbal generate` "
      "and `gimbal eval` need only the checkpoints"));
}

}  // namespace gimbal::coordinator
