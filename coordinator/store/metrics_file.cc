#include "coordinator/store/metrics_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file.h"

namespace gimbal::coordinator {
namespace {

using Json = nlohmann::ordered_json;

// JSON knows no numbers that are not finite; they are written as null.
double Number(const Json& json) {
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
  return json.get<double>();
}

}  // namespace

std::string ToJson(const MetricsRow& row) {
  Json json = {{"step", row.step},
               {"loss", row.loss},
               {"lr", row.lr},
               {"grad_norm", row.grad_norm},
               {"tokens", row.tokens},
               {"seconds", row.seconds},
               {"staleness", row.staleness}};
  if (row.valid_loss.has_value()) json["valid_loss"] = *row.valid_loss;
  if (!row.left_out.empty()) json["left_out"] = row.left_out;
  return json.dump();
}

absl::StatusOr<MetricsRow> ParseMetricsRow(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    MetricsRow row;
    row.step = json.at("step").get<int64_t>();
    row.loss = Number(json.at("loss"));
    row.lr = json.at("lr").get<double>();
    row.grad_norm = Number(json.at("grad_norm"));
    row.tokens = json.at("tokens").get<int64_t>();
    row.seconds = json.at("seconds").get<double>();
    row.staleness = json.at("staleness").get<std::vector<int64_t>>();
    if (json.contains("valid_loss")) {
      row.valid_loss = Number(json.at("valid_loss"));
    }
    row.left_out = json.value("left_out", "");
    return row;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

absl::StatusOr<MetricsFile> MetricsFile::Open(const std::string& path) {
  io::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  return MetricsFile(path, std::move(fd));
}

void MetricsFile::Append(const MetricsRow& row) {
  pending_ += ToJson(row);
  pending_ += '\n';
}

absl::Status MetricsFile::Flush() {
  while (!pending_.empty()) {
    const ssize_t written = write(fd_.get(), pending_.data(), pending_.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
    }
    pending_.erase(0, written);
  }
  return absl::OkStatus();
}

absl::Status MetricsFile::Sync() {
  GIMBAL_RETURN_IF_ERROR(Flush());
  if (fdatasync(fd_.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path_));
}

absl::StatusOr<std::vector<MetricsRow>> MetricsFile::Rows() {
  GIMBAL_RETURN_IF_ERROR(Flush());
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path_));
  std::vector<MetricsRow> rows;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const auto row = ParseMetricsRow(text.substr(begin, end - begin));
    if (!row.ok() || row->step != static_cast<int64_t>(rows.size()) + 1) break;
    rows.push_back(*row);
  }
  return rows;
}

absl::StatusOr<std::vector<MetricsRow>> MetricsFile::Keep(int64_t last) {
  // What a full disk has no room for is dropped, or missed below.
  const absl::Status flushed = Flush();
  GIMBAL_ASSIGN_OR_RETURN(const std::string text, io::ReadFile(path_));
  std::vector<MetricsRow> rows;
  size_t begin = 0;
  while (static_cast<int64_t>(rows.size()) < last) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const absl::StatusOr<MetricsRow> row =
        ParseMetricsRow(text.substr(begin, end - begin));
    const int64_t expected = static_cast<int64_t>(rows.size()) + 1;
    if (!row.ok() || row->step != expected) {
      return absl::DataLossError(
          absl::StrCat(path_, ":", expected, ": ",
                       row.ok() ? absl::StrCat("is update ", row->step)
                                : std::string(row.status().message()),
                       ", expected the row of update ", expected));
    }
    rows.push_back(*row);
    begin = end + 1;
  }
  if (static_cast<int64_t>(rows.size()) < last) {
    GIMBAL_RETURN_IF_ERROR(flushed);
    return absl::DataLossError(absl::StrCat(
        path_, ": ends with update ", rows.size(), ", expected the rows up to ",
        last,
        ", where the checkpoint is; put the whole file back, or remove "
        "the checkpoints beyond update ",
        rows.size(), " to go on from an older one"));
  }
  if (ftruncate(fd_.get(), static_cast<off_t>(begin)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot truncate ", path_));
  }
  pending_.clear();
  return rows;
}

}  // namespace gimbal::coordinator
