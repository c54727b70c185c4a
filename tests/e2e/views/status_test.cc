// `gimbal status` of runs that hang, on a narrow terminal and in a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>

#include "tests/support/command.h"
#include "tests/support/environment.h"
#include "tests/support/http_get.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::BinaryPath;
using test_support::Command;
using test_support::CommandResult;
using test_support::Environment;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class StatusOfARun : public test_support::TrainFixture {
 protected:
  std::vector<std::string> LongRun(const std::string& run) {
    return TrainArguments(
        run, {"--workers", "2", "--set", "run.steps=1000000", "--set",
              "eval.every=0", "--set", "checkpoint.every=0", "--set",
              "cluster.lease=100s"});
  }
  CommandResult Gimbal(const std::string& verb, const std::string& run,
                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> argv = {"gimbal", verb, "--run-dir",
                                     folder_ / run};
    argv.insert(argv.end(), more.begin(), more.end());
    return test_support::Run(argv);
  }
};

TEST_F(StatusOfARun, NamesTheStageThatHangsWithinASecond) {
  Command train(LongRun("hangs"));
  ASSERT_TRUE(WaitForRows(train, "hangs", 5));
  const std::vector<int> pids = WorkerPids("hangs");
  ASSERT_EQ(pids.size(), 2u);
  kill(pids[1], SIGSTOP);
  milliseconds fastest(10000);
  json status = json::object();
  for (int i = 0; i < 300 && status.value("standstill", "") == ""; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const CommandResult result = Gimbal("status", "hangs", {"--json"});
    fastest = std::min(fastest, std::chrono::duration_cast<milliseconds>(
                                    std::chrono::steady_clock::now() - begin));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    status = json::parse(result.output);
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_LT(fastest, milliseconds(1000));
  EXPECT_EQ(status.at("state"), "RUN_STATE_RUNNING");
  EXPECT_THAT(status.at("standstill"),
              AllOf(HasSubstr("stage 2 (worker-"),
                    HasSubstr("pid " + std::to_string(pids[1])),
                    HasSubstr("is silent for")));
  EXPECT_THAT(Gimbal("status", "hangs").output, HasSubstr("no update for "));

  kill(pids[1], SIGCONT);
  for (int i = 0; i < 300 && status.value("standstill", "") != ""; ++i) {
    status = json::parse(Gimbal("status", "hangs", {"--json"}).output);
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(status.at("standstill"), "");
  EXPECT_EQ(Gimbal("stop", "hangs").exit_code, 0);
  EXPECT_EQ(train.Wait(seconds(60)).exit_code, 4);
}

// It may also be the coordinator itself.
TEST_F(StatusOfARun, SaysWithinASecondThatTheCoordinatorHangs) {
  Command train(LongRun("silent"));
  ASSERT_TRUE(WaitForRows(train, "silent", 5));
  const int coordinator = CoordinatorPid("silent");
  ASSERT_GT(coordinator, 0);
  kill(coordinator, SIGSTOP);
  const CommandResult silent = Gimbal("status", "silent");
  const CommandResult command = Gimbal("pause", "silent");
  kill(coordinator, SIGCONT);
  EXPECT_THAT(silent.output, HasSubstr("has not answered for 0.8 s"));
  EXPECT_THAT(silent.output, HasSubstr("starts it again after half a minute"));
  // Whoever hangs was once asked about TLS.
  EXPECT_THAT(silent.output + command.output, Not(HasSubstr("TLS")));
  EXPECT_THAT(command.output, HasSubstr("its process hangs, or its host"));
  EXPECT_NE(silent.exit_code, 0);
  EXPECT_EQ(Gimbal("stop", "silent").exit_code, 0);
  EXPECT_EQ(train.Wait(seconds(60)).exit_code, 4);
  // And how a run ended that nobody serves.
  const CommandResult ended = Gimbal("status", "silent");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("it ended: ended at the"),
                                  HasSubstr("committed checkpoint of update"),
                                  HasSubstr("staleness mean")));
  EXPECT_THAT(Gimbal("pause", "silent").output, HasSubstr("it ended: "));
}

TEST_F(StatusOfARun, IsWatchedInAPipeAndOnANarrowTerminal) {
  const Environment length("GIMBAL_STAGE_SECONDS", "0.02");
  Command train(LongRun("watched"));
  ASSERT_TRUE(WaitForRows(train, "watched", 5));
  const std::string watch = BinaryPath("gimbal") +
                            " status --watch --run-dir " +
                            (folder_ / "watched");
  Command pipe(
      {"gimbal", "status", "--watch", "--run-dir", folder_ / "watched"});
  Command terminal({"/usr/bin/script", "-qec",
                    "stty cols 80 rows 24; TERM=xterm " + watch, "/dev/null"});
  // Until both have shown the run several times: an update takes 20 ms.
  ASSERT_TRUE(WaitForRows(train, "watched", 200));
  EXPECT_EQ(Gimbal("stop", "watched").exit_code, 0);
  const std::string piped = pipe.Wait(seconds(60)).output;
  const std::string drawn = terminal.Wait(seconds(60)).output;
  EXPECT_EQ(train.Wait(seconds(60)).exit_code, 4);

  EXPECT_THAT(piped, Not(HasSubstr("\033")));
  EXPECT_THAT(piped,
              AllOf(HasSubstr("staleness 3,2,1,0"), HasSubstr("stopped")));
  EXPECT_THAT(drawn, AllOf(HasSubstr("\033["), HasSubstr("activity")));
  std::istringstream lines(
      std::regex_replace(drawn, std::regex("\033\\[[0-9;?]*[A-Za-z]|\r"), ""));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(
        std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }),
        80)
        << line;
  }
}

// A watch once gave up after five seconds, and spoke of TLS.
TEST_F(StatusOfARun, IsWatchedOnWhileTheCoordinatorHangs) {
  const Environment length("GIMBAL_STAGE_SECONDS", "0.02");
  Command train(LongRun("waits"));
  ASSERT_TRUE(WaitForRows(train, "waits", 5));
  const std::vector<std::string> watch = {"gimbal", "status", "--watch",
                                          "--run-dir", folder_ / "waits"};
  const int coordinator = CoordinatorPid("waits");
  Command pipe(watch);
  Command terminal({"/usr/bin/script", "-qec",
                    "stty cols 80 rows 24; TERM=xterm " + BinaryPath("gimbal") +
                        " status --watch --run-dir " + (folder_ / "waits"),
                    "/dev/null"});
  ASSERT_TRUE(WaitForRows(train, "waits", 100));
  kill(coordinator, SIGSTOP);
  std::this_thread::sleep_for(seconds(8));
  Command late(watch);  // begins while there is nobody to answer
  std::this_thread::sleep_for(seconds(4));
  const bool all_go_on = pipe.Running() && terminal.Running() && late.Running();
  kill(coordinator, SIGCONT);
  EXPECT_TRUE(all_go_on);
  std::this_thread::sleep_for(seconds(4));
  late.Signal(SIGINT);
  const CommandResult latest = late.Wait(seconds(60));
  EXPECT_EQ(latest.exit_code, 0);
  EXPECT_EQ(Gimbal("stop", "waits").exit_code, 0);
  const std::string piped = pipe.Wait(seconds(60)).output;
  const std::string drawn = terminal.Wait(seconds(60)).output;
  EXPECT_EQ(train.Wait(seconds(60)).exit_code, 4);

  for (const std::string& text : {piped, latest.output}) {
    EXPECT_EQ(test_support::CountOf(" has not answered since ", text), 1)
        << text;
    EXPECT_EQ(test_support::CountOf(" answers again, after ", text), 1) << text;
    EXPECT_THAT(text, AllOf(HasSubstr("update "), Not(HasSubstr("TLS"))));
  }
  EXPECT_THAT(piped, HasSubstr("stopped"));
  EXPECT_THAT(drawn,
              AllOf(HasSubstr("no answer from the coordinator since "),
                    HasSubstr("; this was before:"), HasSubstr("stopped")));
}

// Where a stage's time goes is told in two ways; traces are checked against the
// status (trace_run_test), which is what the metrics say.
TEST_F(StatusOfARun, TimesAreThoseOfTheMetrics) {
  const Environment length("GIMBAL_STAGE_SECONDS", "0.02");
  Command train(LongRun("times"));
  ASSERT_TRUE(WaitForRows(train, "times", 50));
  EXPECT_EQ(Gimbal("pause", "times").exit_code, 0);
  json status = json::object();
  for (int i = 0; i < 300 && status.value("state", "") != "RUN_STATE_PAUSED";
       ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    status = json::parse(Gimbal("status", "times", {"--json"}).output);
  }
  ASSERT_EQ(status.value("state", ""), "RUN_STATE_PAUSED");
  std::this_thread::sleep_for(seconds(3));  // until the last heartbeat tells
  status = json::parse(Gimbal("status", "times", {"--json"}).output);
  int compared = 0;
  for (const json& worker : status.at("workers")) {
    const std::string metrics =
        test_support::HttpGet(worker.at("metrics_address"), "/metrics");
    for (const json& stage : worker.at("stages")) {
      const json& times = status.at("stages").at(stage.get<int>()).at("times");
      for (const char* phase : {"forward", "backward", "update"}) {
        std::smatch found;
        const std::regex line(
            "gimbal_stage_phase_seconds_total\\{phase=\"" + std::string(phase) +
            "\",run=\"[^\"]*\",stage=\"" + stage.dump() + "\"\\} (\\S+)");
        ASSERT_TRUE(std::regex_search(metrics, found, line)) << metrics;
        const double seconds = std::stod(found[1]);
        EXPECT_GT(seconds, 0);
        EXPECT_NEAR(times.at(phase), seconds, 1e-6 * seconds) << phase;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 4 * 3);
  EXPECT_EQ(Gimbal("stop", "times").exit_code, 0);
  EXPECT_EQ(train.Wait(seconds(60)).exit_code, 4);
}

TEST_F(StatusOfARun, LogsAreJsonWhenAskedFor) {
  MustTrain("json", {"--workers", "2", "--log-format", "json"});
  std::istringstream lines(Logs("json"));
  int hosting = 0, count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    if (line.rfind("--- ", 0) == 0) continue;  // a file's name
    const json event = json::parse(line, nullptr, false);
    ASSERT_TRUE(event.is_object()) << line;
    for (const char* key : {"time", "level", "program", "text"}) {
      ASSERT_TRUE(event.contains(key)) << line;
    }
    hosting += event.contains("run") && event.contains("stages") &&
               event.contains("generation");
  }
  EXPECT_GT(count, 10);
  // So do the decisions, and of which update those are that name one.
  std::istringstream events(
      test_support::ReadText(folder_ / "json/events.jsonl"));
  int of_checkpoints = 0;
  int64_t generation = 0;
  for (std::string line; std::getline(events, line);) {
    const json event = json::parse(line);
    const std::string what = event.at("what");
    if (what.starts_with("generation 1: ")) generation = 1;
    EXPECT_EQ(event.value("generation", 0), generation) << line;
    if (!what.starts_with("checkpoint ")) continue;
    ++of_checkpoints;
    EXPECT_TRUE(what.starts_with("checkpoint " + event.at("update").dump()))
        << line;
  }
  EXPECT_GE(of_checkpoints, 1);
  EXPECT_GE(hosting, 2);
}

}  // namespace
}  // namespace gimbal
