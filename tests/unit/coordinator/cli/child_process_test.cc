#include "coordinator/cli/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using std::chrono::milliseconds;
using test_support::StatusIs;
using test_support::TempDir;
using testing::HasSubstr;

template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

TEST(ChildProcessTest, GivesExitCodeAndKeepsTheOutput) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(
      ChildProcess child,
      ChildProcess::Start({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"},
                          dir / "log"));
  ASSERT_TRUE(Eventually([&] { return child.Poll().has_value(); }));
  EXPECT_EQ(child.Poll(), 7);
  ASSERT_OK_AND_ASSIGN(const std::string log, io::ReadFile(dir / "log"));
  EXPECT_EQ(log, "out\nerr\n");
}

TEST(ChildProcessTest, InputCanBeReadAndOpened) {
  const TempDir dir;
  const std::string input(200000, 'x');  // more than a pipe takes
  for (const char* program : {"wc -c", "wc -c /dev/stdin"}) {
    ASSERT_OK_AND_ASSIGN(
        ChildProcess child,
        ChildProcess::Start({"/bin/sh", "-c", program}, dir / "log", input));
    ASSERT_TRUE(Eventually([&] { return child.Poll().has_value(); }));
  }
  ASSERT_OK_AND_ASSIGN(const std::string log, io::ReadFile(dir / "log"));
  EXPECT_EQ(log, "200000\n200000 /dev/stdin\n");
}

TEST(ChildProcessTest, DeathBySignalIs128Plus) {
  const TempDir dir;
  ASSERT_OK_AND_ASSIGN(ChildProcess child,
                       ChildProcess::Start({"/bin/sleep", "100"}, dir / "log"));
  child.Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return child.Poll().has_value(); }));
  EXPECT_EQ(child.Poll(), 128 + SIGTERM);
}

TEST(ChildProcessTest, MissingProgramIsNamed) {
  const TempDir dir;
  EXPECT_THAT(
      ChildProcess::Start({dir / "nothing"}, dir / "log"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir / "nothing")));
}

TEST(ChildProcessTest, IsKilledWithItsHandle) {
  const TempDir dir;
  pid_t pid = 0;
  {
    ASSERT_OK_AND_ASSIGN(
        ChildProcess child,
        ChildProcess::Start({"/bin/sleep", "100"}, dir / "log"));
    pid = child.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

// A launcher that is killed with SIGKILL can do nothing for its children.
TEST(ChildProcessTest, DoesNotOutliveItsParent) {
  const TempDir dir;
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto child = ChildProcess::Start(
        {"/bin/sh", "-c", "echo $$ > " + (dir / "pid") + "; exec sleep 100"},
        dir / "log");
    while (child.ok()) pause();
    _exit(1);
  }
  pid_t pid = 0;
  ASSERT_TRUE(Eventually([&] {
    const auto text = io::ReadFile(dir / "pid");
    if (!text.ok() || text->empty() || text->back() != '\n') return false;
    pid = std::stoi(*text);
    return true;
  }));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  // The orphan is reaped by init, which may take a while: a zombie is dead.
  EXPECT_TRUE(Eventually([&] {
    const auto stat = io::ReadFile("/proc/" + std::to_string(pid) + "/stat");
    return !stat.ok() || stat->find(") Z ") != std::string::npos;
  }));
}

}  // namespace
}  // namespace gimbal::cli
