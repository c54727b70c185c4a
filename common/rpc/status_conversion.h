// absl::Status <-> grpc::Status: the only place that converts them. The codes
// are the same numbers by design of both libraries; the message is kept.
#pragma once

#include "absl/status/status.h"

namespace grpc {
class Status;
}

namespace gimbal::rpc {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace gimbal::rpc
