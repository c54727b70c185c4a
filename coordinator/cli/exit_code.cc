#include "coordinator/cli/exit_code.h"

#include <cstdio>
#include <string>

namespace gimbal::cli {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kDataLoss:
      return kBadUsage;
    default:
      return kInternalError;
  }
}

int Fail(const absl::Status& status) {
  const std::string message(status.message());
  std::fprintf(stderr, "gimbal: %s\n", message.c_str());
  return ExitCodeOf(status);
}

}  // namespace gimbal::cli
