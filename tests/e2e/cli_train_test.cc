// `gimbal train` and what works on its run folder, with the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "common/io/file.h"
#include "coordinator/cli/child_process.h"
#include "tests/e2e/cli_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::e2e {
namespace {

using testing::HasSubstr;

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

class CliTrainTest : public testing::Test {
 protected:
  Outcome Run(const std::string& args) { return Gimbal(dir_.path(), args); }

  // `gimbal train` in the background; its output goes to the file `out`.
  cli::ChildProcess Launch(const std::string& run) {
    auto launcher = cli::ChildProcess::Start(
        {"/bin/sh", "-c",
         "cd " + dir_.path() + " && exec " + Program("gimbal") +
             " train c.yaml --log-every 0 --run-dir " + run},
        dir_ / "out");
    EXPECT_THAT(launcher, test_support::IsOk());
    return *std::move(launcher);
  }

  // Whether the run's metrics hold at least `rows` updates.
  bool HasRows(const std::string& run, int rows) {
    const std::string text = MetricsWithoutSeconds(dir_ / run);
    return std::count(text.begin(), text.end(), '\n') >= rows;
  }

  test_support::TempDir dir_;
};

TEST_F(CliTrainTest, TrainsShowsAndAnswers) {
  WriteCorpusAndConfig(dir_.path(), 60);
  const Outcome train = Run("train c.yaml --run-dir run --log-every 0");
  ASSERT_EQ(train.code, 0) << train.output;
  EXPECT_THAT(train.output, HasSubstr("run folder run: 4 stages on 4 workers"));
  EXPECT_THAT(train.output, HasSubstr("updates      60"));
  EXPECT_THAT(train.output, HasSubstr("gimbal generate run"));
  EXPECT_TRUE(HasRows("run", 60));
  EXPECT_EQ(ProcessesIn(dir_.path()), 0);

  const Outcome text = Run("generate run --prompt 'line ' --tokens 40");
  EXPECT_EQ(text.code, 0) << text.output;
  EXPECT_THAT(text.output, testing::StartsWith("line "));
  EXPECT_EQ(text.output.size(), 5 + 40 + 1);
  EXPECT_EQ(Run("generate run --prompt 'line ' --tokens 40").output,
            text.output);
  EXPECT_NE(Run("generate run --prompt 'line ' --tokens 40 --seed 2").output,
            text.output);

  const Outcome eval = Run("eval run --windows 5");
  EXPECT_EQ(eval.code, 0) << eval.output;
  EXPECT_THAT(eval.output, HasSubstr("tokens      80\n"));

  const Outcome verify = Run("checkpoint verify run");
  EXPECT_EQ(verify.code, 0) << verify.output;
  EXPECT_THAT(verify.output, HasSubstr("good  run/checkpoints/step-00000060"));

  const Outcome compare = Run("compare run --plot loss.svg");
  EXPECT_EQ(compare.code, 0) << compare.output;
  EXPECT_THAT(compare.output, HasSubstr("basis_rotation"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "loss.svg"));

  const Outcome again = Run("train c.yaml --run-dir run");
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.output, HasSubstr("holds a run already; add --resume"));
}

TEST_F(CliTrainTest, InterruptedAndResumedEqualsUndisturbed) {
  WriteCorpusAndConfig(dir_.path(), 3000, "checkpoint: {every: 50}\n");
  ASSERT_EQ(Run("train c.yaml --run-dir whole --workers 1").code, 0);

  cli::ChildProcess launcher = Launch("part");
  ASSERT_TRUE(Eventually([&] { return HasRows("part", 60); }));
  launcher.Signal(SIGINT);
  ASSERT_TRUE(Eventually([&] { return launcher.Poll().has_value(); }));
  EXPECT_EQ(launcher.Poll(), 4);
  ASSERT_OK_AND_ASSIGN(const std::string shown, io::ReadFile(dir_ / "out"));
  EXPECT_THAT(shown, HasSubstr("staleness 3,2,1,0 (expected 3,2,1,0)"));
  EXPECT_THAT(shown, HasSubstr("--run-dir part --resume"));
  EXPECT_FALSE(HasRows("part", 3000));
  EXPECT_EQ(ProcessesIn(dir_.path()), 0);

  const Outcome rest = Run("train --run-dir part --resume");
  EXPECT_EQ(rest.code, 0) << rest.output;
  EXPECT_EQ(MetricsWithoutSeconds(dir_ / "part"),
            MetricsWithoutSeconds(dir_ / "whole"));
}

TEST_F(CliTrainTest, NothingOutlivesAKilledLauncher) {
  WriteCorpusAndConfig(dir_.path(), 1000000);
  cli::ChildProcess launcher = Launch("run");
  ASSERT_TRUE(Eventually([&] { return HasRows("run", 10); }));
  EXPECT_EQ(ProcessesIn(dir_.path()), 1 + 1 + 4);
  launcher.Kill();
  EXPECT_TRUE(Eventually([&] { return ProcessesIn(dir_.path()) == 0; }));
}

// It once ended with exit code 0 and nothing to show.
TEST_F(CliTrainTest, ADeletedRunFolderFailsTheRun) {
  WriteCorpusAndConfig(dir_.path(), 1000000);
  cli::ChildProcess launcher = Launch("run");
  ASSERT_TRUE(Eventually([&] { return HasRows("run", 10); }));
  std::filesystem::rename(dir_ / "run", dir_ / "moved");
  ASSERT_TRUE(Eventually([&] { return launcher.Poll().has_value(); }));
  EXPECT_EQ(launcher.Poll(), 3);
  ASSERT_OK_AND_ASSIGN(const std::string shown, io::ReadFile(dir_ / "out"));
  EXPECT_THAT(shown, HasSubstr("deleted or moved while the run went on"));
  EXPECT_EQ(ProcessesIn(dir_.path()), 0);
}

TEST_F(CliTrainTest, CommandsReachARunningRun) {
  WriteCorpusAndConfig(dir_.path(), 1000000);
  cli::ChildProcess launcher = Launch("run");
  ASSERT_TRUE(Eventually([&] { return HasRows("run", 10); }));
  EXPECT_THAT(Run("status --run-dir run").output, HasSubstr("running"));
  EXPECT_THAT(Run("status --run-dir run --json").output,
              HasSubstr("\"state\": \"RUN_STATE_RUNNING\""));
  EXPECT_EQ(Run("pause --run-dir run").code, 0);
  EXPECT_TRUE(Eventually([&] {
    return Run("status --run-dir run").output.find("paused") !=
           std::string::npos;
  }));
  EXPECT_EQ(Run("resume --run-dir run").code, 0);
  EXPECT_EQ(Run("checkpoint --run-dir run").code, 0);
  EXPECT_TRUE(
      Eventually([&] { return Run("checkpoint ls --run-dir run").code == 0; }));
  EXPECT_EQ(Run("drain --run-dir run").code, 0);
  ASSERT_TRUE(Eventually([&] { return launcher.Poll().has_value(); }));
  EXPECT_EQ(launcher.Poll(), 4);
  const Outcome gone = Run("status --run-dir run");
  EXPECT_EQ(gone.code, 0);
  EXPECT_THAT(gone.output, HasSubstr("no coordinator serves this run now"));
}

TEST_F(CliTrainTest, WhoFollowsSeesTheEnd) {
  WriteCorpusAndConfig(dir_.path(), 1000000);
  cli::ChildProcess launcher = Launch("run");
  ASSERT_TRUE(Eventually([&] { return HasRows("run", 10); }));
  ASSERT_OK_AND_ASSIGN(const std::string serving,
                       io::ReadFile(dir_ / "run/coordinator.json"));
  const size_t begin = serving.find("127.0.0.1:");
  const std::string follow =
      "train --coordinator " +
      serving.substr(begin, serving.find('"', begin) - begin);
  std::thread stopper([&] {
    Eventually([&] { return Run("drain --run-dir run").code == 0; });
  });
  const Outcome followed = Run(follow);
  stopper.join();
  EXPECT_EQ(followed.code, 4) << followed.output;
  EXPECT_THAT(followed.output, HasSubstr("the run ended: ended at the"));
  ASSERT_TRUE(Eventually([&] { return launcher.Poll().has_value(); }));
  EXPECT_EQ(launcher.Poll(), 4);
  const Outcome both = Run("train c.yaml --coordinator 127.0.0.1:1");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.output, HasSubstr("excludes --coordinator"));
}

TEST_F(CliTrainTest, BadInputEndsWith2AndWritesNothing) {
  WriteCorpusAndConfig(dir_.path(), 10);
  std::ofstream(dir_ / "short.txt") << "abc";
  std::ofstream(dir_ / "file") << "x";
  const struct {
    const char* args;
    const char* message;
  } kCases[] = {
      {"--set optimizer.lrr=1", "optimizer.lr"},
      {"--set model.layers=many", "model.layers"},
      {"--set pipeline.stages=5", "stages"},
      {"--set model.heads=3", "heads"},
      {"--set data.train=missing.txt", "missing.txt"},
      {"--set data.train=short.txt", "short.txt"},
      {"--set model.vocab=50", "vocab"},
      {"--device cuda", "use --device cpu"},
      {"--workers 9", "--workers 9"},
      {"--workers abc", "--workers: found 'abc', expected a whole number"},
      {"--log-every x", "--log-every: found 'x', expected a number"},
      {"--resume", "holds no run"},
      {"--set cluster.listen=192.0.2.1:80", "192.0.2.1:80"},
      {"--set cluster.listen=127.example.com:0", "loopback"},
      {"--set cluster.metrics_listen=192.0.2.1:0", "192.0.2.1:0"},
      {"--set cluster.metrics_listen=some-host:0", "the host as a number"},
      {"--set cluster.listen=127.0.0.1:48321 "
       "--set cluster.metrics_listen=127.0.0.1:48321",
       "both have port 48321"},
      {"--set checkpoint.dir=file/x", "another checkpoint.dir"},
      {"--set checkpoint.dir=/proc/x", "/proc/x"},
      {"--run-dir file/run", "is not a folder"},
      {"--nonsense", "--nonsense"},
  };
  for (const auto& [args, message] : kCases) {
    std::string all = std::string("train c.yaml ") + args;
    if (all.find("--run-dir") == std::string::npos) all += " --run-dir run";
    const Outcome outcome = Run(all);
    EXPECT_EQ(outcome.code, 2) << all << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message)) << all;
    EXPECT_FALSE(std::filesystem::exists(dir_ / "run")) << all;
  }
}

TEST_F(CliTrainTest, EveryVerbHasHelpWithAnExample) {
  for (const char* verb :
       {"train", "config", "plan", "status", "pause", "resume", "checkpoint",
        "checkpoint ls", "checkpoint verify", "drain", "stop", "prepare",
        "eval", "generate", "compare", "refresh", "sweep"}) {
    const Outcome help = Run(std::string(verb) + " --help");
    EXPECT_EQ(help.code, 0) << verb;
    EXPECT_THAT(help.output, HasSubstr("Example:")) << verb;
  }
  EXPECT_EQ(Run("").code, 2);
  EXPECT_THAT(Run("trian").output, HasSubstr("trian"));
}

}  // namespace
}  // namespace gimbal::e2e
