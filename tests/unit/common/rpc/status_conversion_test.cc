#include "common/rpc/status_conversion.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

namespace gimbal::rpc {
namespace {

TEST(StatusConversion, KeepsCodeAndMessageBothWays) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code),
                              code == 0 ? "" : "why");
    const grpc::Status over_the_wire = ToGrpc(status);
    EXPECT_EQ(over_the_wire.error_code(), code);
    EXPECT_EQ(FromGrpc(over_the_wire), status);
  }
}

}  // namespace
}  // namespace gimbal::rpc
