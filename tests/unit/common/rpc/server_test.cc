#include "common/rpc/server.h"

#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include <chrono>

#include "common/rpc/channel.h"
#include "tests/support/status_matchers.h"

namespace gimbal::rpc {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Server, PicksAFreePortAndServes) {
  ASSERT_OK_AND_ASSIGN(Server server,
                       Server::Start({.address = "127.0.0.1:0"}));
  EXPECT_THAT(server.address(), HasSubstr("127.0.0.1:"));
  EXPECT_THAT(server.address(), Not(HasSubstr(":0")));
  EXPECT_TRUE(MakeChannel(server.address(), {})
                  ->WaitForConnected(std::chrono::system_clock::now() +
                                     std::chrono::seconds(10)));
}

TEST(Server, NamesATakenAddress) {
  ASSERT_OK_AND_ASSIGN(Server first, Server::Start({.address = "127.0.0.1:0"}));
  EXPECT_THAT(
      Server::Start({.address = first.address()}),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(first.address())));
}

TEST(Server, FreesItsPortWhenItIsGone) {
  std::string address;
  {
    ASSERT_OK_AND_ASSIGN(Server first,
                         Server::Start({.address = "127.0.0.1:0"}));
    address = first.address();
  }
  EXPECT_THAT(Server::Start({.address = address}), IsOk());
}

TEST(Server, RefusesWhatIsNoAddress) {
  for (const char* address : {"", "localhost", ":80", "localhost:x",
                              "localhost:70000", "localhost:-1"}) {
    EXPECT_THAT(
        Server::Start({.address = address}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")))
        << address;
  }
}

}  // namespace
}  // namespace gimbal::rpc
