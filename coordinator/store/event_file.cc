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

}  // namespace

absl::StatusOr<EventFile> EventFile::Open(const std::string& path) {
  io::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  return EventFile(path, std::move(fd));
}

void EventFile::Append(const StoredDecision& decision) {
  const std::string line = LineOf(decision);
  if (write(fd_.get(), line.data(), line.size()) !=
      static_cast<ssize_t>(line.size())) {
    base::LogWarning(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_))
            .ToString());
  }
}

absl::Status EventFile::AppendMissing(const StoredDecision& decision) {
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path_));
  if (!absl::StrContains(text, LineOf(decision))) Append(decision);
  return absl::OkStatus();
}

}  // namespace gimbal::coordinator
