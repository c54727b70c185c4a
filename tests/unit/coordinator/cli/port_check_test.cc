#include "coordinator/cli/port_check.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/status_matchers.h"

namespace gimbal::cli {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using testing::AllOf;
using testing::HasSubstr;

TEST(PortCheckTest, ATakenPortIsNamed) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  // As gRPC servers do, which must not hide that the port is taken.
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes));
  ASSERT_EQ(bind(fd, generic, size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, generic, &size), 0);
  const std::string taken =
      "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_THAT(CheckPortFree("cluster.listen", taken),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("cluster.listen"), HasSubstr(taken))));
  close(fd);
  EXPECT_THAT(CheckPortFree("cluster.listen", taken), IsOk());
}

TEST(PortCheckTest, PortZeroIsAlwaysFree) {
  EXPECT_THAT(CheckPortFree("k", "127.0.0.1:0"), IsOk());
}

TEST(PortCheckTest, WhatIsNoAddressIsRefused) {
  for (const char* bad : {"localhost", "127.0.0.1:", "127.0.0.1:http"}) {
    EXPECT_THAT(CheckPortFree("k", bad),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  // An address of another machine.
  for (const char* other : {"192.0.2.1:4000", "192.0.2.1:0"}) {
    EXPECT_THAT(CheckPortFree("k", other),
                StatusIs(absl::StatusCode::kNotFound));
  }
}

TEST(PortCheckTest, TheTwoPortsMayNotBeTheSame) {
  v1::ClusterSection cluster;
  cluster.set_listen("127.0.0.1:0");
  cluster.set_metrics_listen("127.0.0.1:0");
  EXPECT_THAT(CheckAddresses(cluster), IsOk());
  cluster.set_metrics_listen("192.0.2.1:0");
  EXPECT_THAT(CheckAddresses(cluster),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cluster.metrics_listen")));
  cluster.set_listen("127.0.0.1:48123");
  cluster.set_metrics_listen("0.0.0.0:48123");
  EXPECT_THAT(CheckAddresses(cluster),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("both have port 48123")));
}

}  // namespace
}  // namespace gimbal::cli
