#include "coordinator/cli/memory.h"

#include <gtest/gtest.h>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using test_support::IsOk;
using test_support::TempDir;
using testing::AllOf;
using testing::HasSubstr;

class AvailableBytesTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    ASSERT_THAT(io::WriteFileAtomically(root_.path() + path, text), IsOk());
  }
  std::optional<int64_t> Bytes() const { return AvailableBytes(root_.path()); }

  const TempDir root_;
};

TEST_F(AvailableBytesTest, IsWhatTheKernelSaysWithoutALimit) {
  EXPECT_EQ(Bytes(), std::nullopt);
  Write("/proc/meminfo",
        "MemTotal:       9 kB\nMemFree:        1 kB\nMemAvailable:   5 kB\n");
  EXPECT_EQ(Bytes(), 5 * 1024);
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(Bytes(), 5 * 1024);
}

TEST_F(AvailableBytesTest, TheSmallestLimitOfAnyGroupAboveBinds) {
  Write("/proc/meminfo", "MemAvailable:   5 kB\n");
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "4000\n");
  EXPECT_EQ(Bytes(), 4000);
  Write("/sys/fs/cgroup/a/memory.max", "3000\n");
  EXPECT_EQ(Bytes(), 3000);
  Write("/sys/fs/cgroup/memory.max", "2000\n");  // a container's own
  EXPECT_EQ(Bytes(), 2000);
}

TEST_F(AvailableBytesTest, OldControlGroupsCountToo) {
  Write("/proc/self/cgroup", "5:devices:/\n4:memory:/job\n0::/\n");
  Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000\n");
  EXPECT_EQ(Bytes(), 7000);
}

TEST(MemoryTest, AllStagesCount) {
  const auto bytes = [](const std::string& stages) {
    const auto config = config::ParseRunConfig(
        "run: {steps: 1}\ndata: {train: a}\n"
        "model: {layers: 4, hidden: 64, heads: 2, context: 64}\n",
        "c.yaml", std::vector<std::string>{"pipeline.stages=" + stages});
    EXPECT_THAT(config, IsOk());
    return *PlannedBytes(*config);
  };
  EXPECT_GT(bytes("1"), 1 << 20);
  EXPECT_GT(bytes("4"), bytes("1"));  // more weight versions
}

TEST(MemoryTest, AWarningSaysHowMuchIsMissing) {
  EXPECT_EQ(MemoryWarning(100, std::nullopt), "");
  EXPECT_EQ(MemoryWarning(100, 100), "");
  EXPECT_THAT(MemoryWarning(2048, 1024),
              AllOf(HasSubstr("need about 2.0 KiB together"),
                    HasSubstr("room for 1.0 KiB")));
}

}  // namespace
}  // namespace gimbal::cli
