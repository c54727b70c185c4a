#include "coordinator/cli/doctor_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ctime>
#include <fstream>

#include "tests/support/temp_dir.h"
#include "tests/support/test_certificates.h"

namespace gimbal::cli {
namespace {

using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Matcher;

Matcher<const Finding&> Is(Health health, const std::string& text) {
  return AllOf(Field(&Finding::health, health),
               Field(&Finding::text, HasSubstr(text)));
}

double Now() { return static_cast<double>(std::time(nullptr)); }

TEST(DoctorSecurity, OthersNeedToBeToldFromFoes) {
  EXPECT_THAT(CheckSecurity({}, {}, Now()), Is(Health::kOk, "only this"));
  EXPECT_THAT(
      CheckSecurity({}, {.listen = "127.0.0.1:0", .advertise = "127.0.0.1"},
                    Now()),
      Is(Health::kOk, "only this machine"));
  EXPECT_THAT(CheckSecurity({}, {.listen = "0.0.0.0:7000"}, Now()),
              Is(Health::kFail, "cluster.listen: other hosts"));
  EXPECT_THAT(
      CheckSecurity({}, {.listen = "127.0.0.1:0", .advertise = "n1"}, Now()),
      Is(Health::kFail, "other hosts are to reach this one at n1"));
}

TEST(DoctorSecurity, ATokenIsForItsUserAlone) {
  const test_support::TempDir folder;
  const rpc::SecurityFiles files = {.token = folder / "token"};
  EXPECT_THAT(CheckSecurity(files, {}, Now()), Is(Health::kFail, "token"));
  std::ofstream(files.token) << "0123456789abcdef";
  ASSERT_EQ(chmod(files.token.c_str(), 0644), 0);
  EXPECT_THAT(CheckSecurity(files, {}, Now()), Is(Health::kWarning, "chmod"));
  ASSERT_EQ(chmod(files.token.c_str(), 0600), 0);
  EXPECT_THAT(CheckSecurity(files, {.advertise = "n1"}, Now()),
              Is(Health::kOk, "a token"));
}

TEST(DoctorSecurity, ACertificateNamesItsHostAndLasts) {
  const test_support::TempDir folder;
  const test_support::TestCertificates certificates(folder / "certs");
  const rpc::SecurityFiles files = certificates.Make("n1", /*days=*/90);
  for (const char* host : {"", "n1", "localhost", "127.0.0.1"}) {
    EXPECT_THAT(CheckSecurity(files, {.advertise = host}, Now()),
                Is(Health::kOk, "certificate for n1, localhost, 127.0.0.1 "));
  }
  for (const char* host : {"n2", "10.0.0.1", "[fd00::1]"}) {
    EXPECT_THAT(CheckSecurity(files, {.advertise = host}, Now()),
                Is(Health::kFail, std::string("but not for ") + host));
  }
  EXPECT_THAT(CheckSecurity(files, {}, Now() + 80 * 86400.0),
              Is(Health::kWarning, "renew"));
}

}  // namespace
}  // namespace gimbal::cli
