#include "coordinator/cli/local_cluster.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Shell scripts in place of the two programs.
class LocalClusterTest : public testing::Test {
 protected:
  LocalClusterTest() {
    EXPECT_THAT(io::MakeFolders(dir_ / "run/logs"), IsOk());
    Program("gimbal-coordinator", Serve() + "exec sleep 100\n");
    Program("gimbal-worker", Count() + "exec sleep 100\n");
  }

  std::string Serve() const {
    return "cat > " + (dir_ / "run/config.yaml") +
           "\necho '{\"address\": \"127.0.0.1:5\", \"pid\": '$$'}' > " +
           (dir_ / "run/coordinator.json.tmp") + "\nmv " +
           (dir_ / "run/coordinator.json.tmp") + " " +
           (dir_ / "run/coordinator.json") + "\n";
  }
  // A worker that notes its command line.
  std::string Count() const {
    return "echo \"$@\" >> " + (dir_ / "starts") + "\n";
  }

  void Program(const std::string& name, const std::string& body) {
    std::ofstream(dir_ / name) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(dir_ / name,
                                 std::filesystem::perms::owner_all);
  }

  absl::StatusOr<std::unique_ptr<LocalCluster>> Start(int workers) {
    return LocalCluster::Start(
        {.bin_dir = dir_.path(),
         .run_dir = dir_ / "run",
         .config = "run: {steps: 1}\n",
         .workers = workers,
         .notice = [this](const std::string& text) { notices_ += text; },
         .wait =
             [this](std::chrono::milliseconds most) {
               std::this_thread::sleep_for(most);
               return interrupted_;
             }});
  }

  int Starts() const {
    std::ifstream file(dir_ / "starts");
    int lines = 0;
    for (std::string line; std::getline(file, line);) ++lines;
    return lines;
  }

  // Supervises with a clock that runs a hundred times as fast as the real one,
  // so that restarts need no waiting.
  absl::Status SuperviseUntil(LocalCluster& cluster,
                              const std::function<bool()>& done) {
    for (int i = 0; i < 2000 && !done(); ++i) {
      now_ += std::chrono::milliseconds(500);
      if (const absl::Status status = cluster.Supervise(now_); !status.ok()) {
        return status;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_TRUE(done());
    return absl::OkStatus();
  }

  TempDir dir_;
  std::string notices_;
  bool interrupted_ = false;
  base::SteadyTime now_ = base::Clock::Real().Now();
};

TEST_F(LocalClusterTest, StartsTheWorkersOnceTheCoordinatorServes) {
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(3));
  EXPECT_EQ(cluster->address(), "127.0.0.1:5");
  EXPECT_EQ(*io::ReadFile(dir_ / "run/config.yaml"), "run: {steps: 1}\n");
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 3; }), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string starts, io::ReadFile(dir_ / "starts"));
  EXPECT_THAT(starts, HasSubstr("--coordinator 127.0.0.1:5 --name worker-2"));
  const auto begin = std::chrono::steady_clock::now();
  cluster->Finish(base::Seconds(0));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_EQ(cluster->coordinator_exit(), 128 + SIGKILL);
}

TEST_F(LocalClusterTest, ACoordinatorThatGivesUpIsReportedWithItsLog) {
  Program("gimbal-coordinator", "echo 'port 80 is taken' >&2; exit 2\n");
  EXPECT_THAT(Start(1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("port 80 is taken")));
  // Its log alone, not that of the one before it.
  Program("gimbal-coordinator", "exit 1\n");
  EXPECT_THAT(Start(1), StatusIs(absl::StatusCode::kInternal,
                                 Not(HasSubstr("port 80 is taken"))));
}

// Resuming a finished run once failed by chance: its coordinator ends at once.
TEST_F(LocalClusterTest, ARunThatIsOverIsNoError) {
  for (const int code : {0, 3, 4}) {
    Program("gimbal-coordinator", "exit " + std::to_string(code) + "\n");
    ASSERT_OK_AND_ASSIGN(const auto cluster, Start(2));
    EXPECT_EQ(cluster->coordinator_exit(), code);
    cluster->Finish(base::Seconds(1));
  }
  EXPECT_EQ(Starts(), 0);
}

TEST_F(LocalClusterTest, AKilledCoordinatorsAddressIsNotUsed) {
  ASSERT_THAT(io::WriteFileAtomically(dir_ / "run/config.yaml", ""), IsOk());
  ASSERT_THAT(
      io::WriteFileAtomically(dir_ / "run/coordinator.json",
                              "{\"address\": \"127.0.0.1:6\", \"pid\": 1}"),
      IsOk());
  Program("gimbal-coordinator", "sleep 0.1\n" + Serve() + "exec sleep 100\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  EXPECT_EQ(cluster->address(), "127.0.0.1:5");
}

TEST_F(LocalClusterTest, ACoordinatorThatHangsIsKilledAndStartedAgain) {
  Program("gimbal-coordinator", "echo >> " + (dir_ / "coordinators") + "\n" +
                                    Serve() + "exec sleep 100\n");
  const auto lives = [&] {
    return io::ReadFile(dir_ / "coordinators")->size();
  };
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      cluster->NoteNoAnswer(now_ += std::chrono::seconds(1));
    }
  };
  pass(29);
  now_ += std::chrono::seconds(100);  // nobody asked
  pass(29);
  cluster->NoteStatus({}, now_);
  pass(29);
  EXPECT_THAT(notices_, Not(HasSubstr("coordinator")));
  pass(3);
  EXPECT_THAT(notices_, HasSubstr("the coordinator hangs"));
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return lives() == 2; }), IsOk());
  EXPECT_EQ(cluster->coordinator_exit(), std::nullopt);
}

TEST_F(LocalClusterTest, AStartThatTakesLongCanBeInterrupted) {
  Program("gimbal-coordinator", "exec sleep 100\n");
  interrupted_ = true;
  EXPECT_THAT(Start(1), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(LocalClusterTest, FinishAsksTheWorkersToLeave) {
  Program("gimbal-worker", "trap 'exit 1' TERM\n" + Count() +
                               "while true; do sleep 0.01; done\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(2));
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 2; }), IsOk());
  const auto begin = std::chrono::steady_clock::now();
  cluster->Finish(base::Seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// A stopped process once hung the whole run.
TEST_F(LocalClusterTest, AHungWorkerIsKilledAndStartedAgain) {
  Program("gimbal-worker",
          "echo $$ >> " + (dir_ / "starts") + "\nexec sleep 100\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 1; }), IsOk());
  v1::GetStatusResponse status;
  int64_t pid = 0;
  std::ifstream(dir_ / "starts") >> pid;
  status.add_workers()->set_pid(pid);
  const auto note = [&](int count) {
    for (int i = 0; i < count; ++i) {
      now_ += std::chrono::seconds(1);
      cluster->NoteStatus(status, now_);
    }
  };
  note(100);
  status.clear_workers();
  now_ += std::chrono::seconds(3600);  // the machine slept
  note(2);
  EXPECT_EQ(notices_, "");
  note(2);
  EXPECT_THAT(notices_, HasSubstr("worker-0 hangs"));
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 2; }), IsOk());
  EXPECT_THAT(notices_, HasSubstr("worker-0 ended with exit code 137"));
  // One that never came has more time: it may still be starting.
  note(10);
  EXPECT_EQ(notices_.find("hangs"), notices_.rfind("hangs"));
}

// At the address of the first one, where the workers look for it, and with the
// run of its folder.
TEST_F(LocalClusterTest, AKilledCoordinatorIsStartedAgain) {
  Program("gimbal-coordinator", "echo \"$@\" >> " + (dir_ / "starts") + "\n" +
                                    Serve() + "exec sleep 100\n");
  Program("gimbal-worker", "exec sleep 100\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  cluster->SignalCoordinator(SIGKILL);
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 2; }), IsOk());
  EXPECT_FALSE(cluster->coordinator_exit().has_value());
  EXPECT_THAT(notices_, HasSubstr("coordinator ended with exit code 137"));
  const std::string starts = *io::ReadFile(dir_ / "starts");
  EXPECT_THAT(starts.substr(starts.find('\n')),
              AllOf(HasSubstr("--resume"), HasSubstr("--listen 127.0.0.1:5")));
}

// The first one serves; later ones do what `later` says.
std::string FirstLife(const std::string& lives, const std::string& serve,
                      const std::string& later) {
  return "echo >> " + lives + "\nif [ $(wc -l < " + lives +
         ") -gt 1 ]; then\n" + later + "\nfi\n" + serve + "exec sleep 100\n";
}

// A disk that was full for some seconds once ended the run.
TEST_F(LocalClusterTest, ALaterLifeThatCannotStartIsTriedAgain) {
  const std::string lives = dir_ / "lives";
  for (const int code : {1, 2}) {
    Program("gimbal-coordinator",
            FirstLife(lives, Serve(),
                      "[ $(wc -l < " + lives +
                          ") -gt 3 ] || { echo 'disk full'; exit " +
                          std::to_string(code) + "; }"));
    ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
    cluster->SignalCoordinator(SIGKILL);
    const auto served_again = [&] {
      return cluster->serving() && io::ReadFile(lives)->size() == 4;
    };
    EXPECT_THAT(SuperviseUntil(*cluster, served_again), IsOk());
    EXPECT_EQ(cluster->coordinator_exit(), std::nullopt);
    const size_t told = notices_.find("tries again for 60 s");
    EXPECT_NE(told, std::string::npos) << notices_;
    EXPECT_EQ(told, notices_.rfind("tries again for 60 s")) << "said once";
    EXPECT_THAT(notices_, HasSubstr("disk full"));
    notices_.clear();
    std::filesystem::remove(lives);
  }
}

TEST_F(LocalClusterTest, ALaterLifeThatNeverStartsEndsTheRun) {
  Program("gimbal-coordinator",
          FirstLife(dir_ / "lives", Serve(), "echo 'disk full'; exit 2"));
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  cluster->SignalCoordinator(SIGKILL);
  const base::SteadyTime begin = now_;
  EXPECT_THAT(
      SuperviseUntil(*cluster, [] { return false; }),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("disk full")));
  EXPECT_GT(now_ - begin, std::chrono::seconds(60));
}

// It was once waited for without limit, and dead workers stayed dead.
TEST_F(LocalClusterTest, ALaterLifeThatHangsBeforeItServesIsKilled) {
  const std::string lives = dir_ / "lives";
  Program("gimbal-coordinator",
          FirstLife(lives, Serve(),
                    "[ $(wc -l < " + lives + ") -gt 2 ] || exec sleep 100"));
  Program("gimbal-worker",
          "echo $$ >> " + (dir_ / "starts") + "\nexec sleep 100\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  cluster->SignalCoordinator(SIGKILL);
  EXPECT_THAT(SuperviseUntil(*cluster,
                             [&] { return io::ReadFile(lives)->size() == 2; }),
              IsOk());
  int pid = 0;
  std::ifstream(dir_ / "starts") >> pid;
  ASSERT_GT(pid, 0);
  kill(pid, SIGKILL);
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 2; }), IsOk());
  EXPECT_FALSE(cluster->serving());
  for (int i = 0; i < 32; ++i) {
    cluster->NoteNoAnswer(now_ += std::chrono::seconds(1));
  }
  EXPECT_THAT(notices_, HasSubstr("the coordinator hangs"));
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return cluster->serving(); }),
              IsOk());
}

TEST_F(LocalClusterTest, AWorkerThatDiesIsStartedAgain) {
  Program("gimbal-worker", Count() + "[ $(wc -l < " + (dir_ / "starts") +
                               ") -gt 1 ] || kill -9 $$\nexec sleep 100\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return Starts() == 2; }), IsOk());
  EXPECT_THAT(notices_, HasSubstr("worker-0 ended with exit code 137"));
}

TEST_F(LocalClusterTest, AWorkerThatCannotLiveEndsTheRun) {
  Program("gimbal-worker", Count() + "echo 'no memory' >&2; exit 1\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  EXPECT_THAT(SuperviseUntil(*cluster, [] { return false; }),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no memory")));
}

TEST_F(LocalClusterTest, AWorkerThatWasToldToEndStaysEnded) {
  Program("gimbal-worker", Count() + "exit 4\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  int rounds = 0;
  EXPECT_THAT(SuperviseUntil(*cluster, [&] { return ++rounds > 50; }), IsOk());
  EXPECT_EQ(Starts(), 1);
}

// A worker that the coordinator refuses, because its numerics differ, exits 3
// while the run waits for it.
TEST_F(LocalClusterTest, AWorkerThatEndsWhileTheCoordinatorGoesOnEndsTheRun) {
  Program("gimbal-worker", Count() + "echo 'is refused' >&2; exit 3\n");
  ASSERT_OK_AND_ASSIGN(const auto cluster, Start(1));
  EXPECT_THAT(SuperviseUntil(*cluster, [] { return false; }),
              StatusIs(absl::StatusCode::kInternal,
                       testing::AllOf(HasSubstr("worker-0 ended"),
                                      HasSubstr("exit code 3"),
                                      HasSubstr("is refused"))));
  EXPECT_EQ(Starts(), 1);
}

}  // namespace
}  // namespace gimbal::cli
