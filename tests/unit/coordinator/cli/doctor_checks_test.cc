#include "coordinator/cli/doctor_checks.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using test_support::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr int64_t kGiB = int64_t{1} << 30;

Matcher<const Finding&> Is(Health health, const std::string& text = "") {
  return AllOf(Field(&Finding::health, health),
               Field(&Finding::text, HasSubstr(text)));
}

TEST(Doctor, FewCoresAreToldOf) {
  EXPECT_THAT(CheckCpu(1, 2, 1), Is(Health::kWarning, "1 cores for 2 workers"));
  EXPECT_THAT(CheckCpu(3, 1, 4), Is(Health::kWarning, "4 threads"));
  EXPECT_THAT(CheckCpu(8, 2, 4), Field(&Finding::text, HasSubstr("8 cores")));
}

TEST(Doctor, MissingGpusFail) {
  EXPECT_THAT(CheckGpu(0, "no driver", 0), Is(Health::kOk, "no driver"));
  EXPECT_THAT(CheckGpu(1, "one", 2), Is(Health::kFail, "2 wanted"));
  EXPECT_THAT(CheckGpu(2, "two", 2), Is(Health::kOk, "two"));
}

TEST(Doctor, KnowsVersionsOfNccl) {
  EXPECT_THAT(CheckNccl(std::nullopt, 0), Is(Health::kOk));
  EXPECT_THAT(CheckNccl(std::nullopt, 2), Is(Health::kFail, "install"));
  EXPECT_THAT(CheckNccl(22809, 2), Is(Health::kOk, "NCCL 2.28.9"));
  EXPECT_THAT(CheckNccl(22803, 1), Is(Health::kFail, "2.28.3"));
  EXPECT_THAT(CheckNccl(22808, 0), Is(Health::kWarning, "2.28.8"));
  EXPECT_THAT(CheckNccl(22802, 1), Is(Health::kOk));
}

TEST(Doctor, MemoryIsComparedWithThePlan) {
  EXPECT_THAT(CheckMemory(kGiB, 2 * kGiB), Is(Health::kOk, "1.0 GiB of 2.0"));
  EXPECT_THAT(CheckMemory(3 * kGiB, 2 * kGiB), Is(Health::kFail, "more nodes"));
  EXPECT_THAT(CheckMemory(kGiB, std::nullopt), Is(Health::kWarning));
}

TEST(Doctor, ReadsAndJudgesTheLimits) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Limits limits = ReadLimits();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(limits.files, 100u);
  EXPECT_THAT(CheckLimits(limits, 0, 0),
              Contains(Is(Health::kWarning, "only 100 open files")));
  EXPECT_THAT(CheckLimits({.files = 4096,
                           .locked_bytes = 65536,
                           .address_bytes = RLIM_INFINITY},
                          kGiB, 0),
              Each(Is(Health::kOk)));
  EXPECT_THAT(CheckLimits({.files = 4096,
                           .locked_bytes = 65536,
                           .address_bytes = RLIM_INFINITY},
                          kGiB, 1),
              Each(Is(Health::kWarning, "ulimit -l")));
  EXPECT_THAT(
      CheckLimits(
          {.files = 4096, .locked_bytes = RLIM_INFINITY, .address_bytes = 1000},
          kGiB, 1),
      Each(Is(Health::kFail, "ulimit -v")));
}

TEST(Doctor, WritesWhereTheRunWill) {
  const TempDir folder;
  // Not made, but tried in the parent there is.
  EXPECT_THAT(CheckWrite("run folder", folder / "a/b", "--run-dir"),
              Is(Health::kOk, folder.path()));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::ofstream(folder / "file") << "x";
  EXPECT_THAT(CheckWrite("run folder", folder / "file/run", "--run-dir"),
              Is(Health::kFail, "--run-dir"));
  // Where nobody writes, root included.
  EXPECT_THAT(CheckWrite("checkpoints", "/proc/run", "checkpoint.dir"),
              Is(Health::kFail, "/proc"));
}

TEST(Doctor, ComparesTheDiskWithTheCheckpoints) {
  const TempDir folder;
  EXPECT_THAT(CheckDisk(folder / "run", 1000, 3),
              Is(Health::kOk, "3 are kept"));
  EXPECT_THAT(CheckDisk(folder / "run", int64_t{1} << 60, 3),
              Is(Health::kFail, "not even one"));
  const auto space = std::filesystem::space(folder.path());
  EXPECT_THAT(
      CheckDisk(folder / "run", static_cast<int64_t>(space.available / 3), 3),
      Is(Health::kWarning, "checkpoint.keep"));
}

TEST(Doctor, FindsTakenPortsAndThoseOfOthers) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(fd, generic, size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, generic, &size), 0);
  v1::ClusterSection cluster;
  cluster.set_listen("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  cluster.set_metrics_listen("192.0.2.1:9100");
  EXPECT_THAT(CheckPorts(cluster),
              ElementsAre(Is(Health::kFail, cluster.listen()),
                          Is(Health::kOk, "another machine")));
  close(fd);
  EXPECT_THAT(CheckPorts(cluster)[0], Is(Health::kOk, "free"));
}

TEST(Doctor, ResolvesNames) {
  EXPECT_THAT(CheckName("this host", "127.0.0.1"),
              Is(Health::kOk, "127.0.0.1 is 127.0.0.1"));
  EXPECT_THAT(CheckName("the coordinator", "no.such.host.invalid"),
              Is(Health::kFail, "/etc/hosts"));
}

TEST(Doctor, ClocksMayDifferALittle) {
  EXPECT_THAT(CheckClock(0.4), Is(Health::kOk, "0.4 s ahead"));
  EXPECT_THAT(CheckClock(-4), Is(Health::kOk, "behind"));
  EXPECT_THAT(CheckClock(-90), Is(Health::kWarning, "NTP"));
}

}  // namespace
}  // namespace gimbal::cli
