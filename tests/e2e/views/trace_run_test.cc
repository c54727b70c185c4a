// Traces of real runs: four processes whose clocks disagree, on one time axis,
// and what the trace says of the schedules' bubbles. The stages' computations
// are given a fixed length, so that two cores are enough for four stages.
//
// Stages also wait for a machine that does other things. So these runs go ahead
// of them where that is allowed, and what counts is what most of a run has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/environment.h"
#include "tests/support/train_fixture.h"

namespace gimbal {
namespace {

using nlohmann::json;
using test_support::Command;
using test_support::CommandResult;
using test_support::CountOf;
using test_support::Difference;
using test_support::Environment;
using test_support::ReadText;
using ::testing::HasSubstr;

constexpr int kStages = 4;

// What is started meanwhile goes ahead of other programs.
class Urgency {
 public:
  Urgency() { Set(SCHED_RR, 10); }
  ~Urgency() { Set(SCHED_OTHER, 0); }

 private:
  // Only root may; others have to do without.
  static void Set(int policy, int priority) {
    const sched_param parameters{.sched_priority = priority};
    sched_setscheduler(0, policy, &parameters);
  }
};

struct Interval {
  double begin = 0, end = 0;  // us
};

class TraceRun : public test_support::TrainFixture {
 protected:
  std::vector<std::string> Arguments(const std::string& schedule, int steps) {
    return {"--workers", std::to_string(kStages), "--set",
            "pipeline.schedule=" + schedule, "--set",
            "run.steps=" + std::to_string(steps),
            // Stages are to take equally long: no bases.
            "--set", "optimizer.name=adamw", "--set", "eval.every=0", "--set",
            "checkpoint.every=0"};
  }

  json Merge(const std::string& run) {
    const CommandResult merged =
        test_support::Run({"gimbal", "trace", "merge", folder_ / run});
    EXPECT_EQ(merged.exit_code, 0) << merged.output;
    EXPECT_THAT(merged.output, HasSubstr("forward"));
    return json::parse(ReadText(folder_ / (run + "/trace/trace.json")));
  }

  json Status(const std::string& run) {
    const CommandResult result = test_support::Run(
        {"gimbal", "status", "--json", "--run-dir", folder_ / run});
    return json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  }

  // Waits until the run's status satisfies the condition; the status, or null
  // when the command has ended before, or after two minutes.
  json AwaitStatus(Command& command, const std::string& run,
                   const std::function<bool(const json&)>& condition) {
    for (int i = 0; i < 1200 && command.Running(); ++i) {
      const json status = Status(run);
      if (status.is_object() && condition(status)) return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return nullptr;
  }
};

// What every reader of the Trace Event Format relies on.
void CheckFormat(const json& trace) {
  std::map<std::pair<int, int>, std::vector<Interval>> open;
  std::set<std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    ASSERT_TRUE(phase == "X" || phase == "M" || phase == "s" || phase == "f");
    ASSERT_TRUE(event.at("name").is_string());
    const int pid = event.at("pid"), tid = event.at("tid");
    if (phase == "M") continue;
    const double begin = event.at("ts");
    ASSERT_GE(begin, 0);
    if (phase != "X") continue;
    names.insert(event.at("name"));
    const double end = begin + event.at("dur").get<double>();
    ASSERT_GE(end, begin);
    // Slices of a thread lie one after or within the other, to the last digit.
    auto& stack = open[{pid, tid}];
    while (!stack.empty() && stack.back().end <= begin + 0.002) {
      stack.pop_back();
    }
    if (!stack.empty()) {
      ASSERT_LE(end, stack.back().end + 0.002) << event;
    }
    stack.push_back({begin, end});
  }
  for (const char* name :
       {"forward", "backward", "update", "send", "recv", "idle"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// Every arrow leads forward in time; their number.
int CheckFlows(const json& trace) {
  std::map<int, double> sent, received;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "s") sent[event.at("id")] = event.at("ts");
    if (event.at("ph") == "f") received[event.at("id")] = event.at("ts");
  }
  EXPECT_EQ(sent.size(), received.size());
  for (const auto& [id, at] : received) EXPECT_LE(sent.at(id), at);
  EXPECT_EQ(trace.at("otherData").at("stretches"), 0);
  EXPECT_EQ(trace.at("otherData").at("contradictions"), 0);
  return static_cast<int>(sent.size());
}

// The clocks are as far apart as they were set, and were set right by measuring
// them: what the order of messages still corrects is no more than measuring
// leaves open.
void CheckClocks(const json& trace, double most_skew) {
  double least = 1e9, most = -1e9, open = 0, corrected = 0;
  for (const json& process : trace.at("otherData").at("processes")) {
    const json& clock = process.at("clock");
    const double offset = clock.at("offset_seconds");
    least = std::min(least, offset);
    most = std::max(most, offset);
    open += 2 * clock.at("uncertainty_seconds").get<double>();
    corrected =
        std::max(corrected, clock.at("correction_seconds").get<double>());
  }
  std::printf(
      "clocks %.2f s apart, measured to within %.1f ms, corrected by %.1f ms\n",
      most - least, open / 2 / kStages * 1000, corrected * 1000);
  EXPECT_GT(most - least, most_skew / 5);
  EXPECT_LE(most - least, 2 * most_skew + open);
  EXPECT_LE(corrected, open);
}

// What a stage did, as far as bubbles are concerned.
struct StageTimes {
  std::map<int64_t, double> forwards;  // when each microbatch's began
  std::vector<Interval> idle;
};

std::vector<StageTimes> TimesOf(const json& trace) {
  std::vector<StageTimes> stages(kStages);
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    StageTimes& stage = stages.at(event.at("tid").get<size_t>());
    const double begin = event.at("ts");
    if (event.at("name") == "forward") {
      stage.forwards[event.at("args").at("index")] = begin;
    } else if (event.at("name") == "idle") {
      stage.idle.push_back({begin, begin + event.at("dur").get<double>()});
    }
  }
  return stages;
}

// Share of a stage's time that it waits, between the beginnings of the forwards
// of two microbatches: between these the pipeline is full, or the same from one
// update to the next.
double IdleShare(const StageTimes& stage, int64_t first, int64_t last) {
  const Interval window = {stage.forwards.at(first), stage.forwards.at(last)};
  double idle = 0;
  for (const auto& [begin, end] : stage.idle) {
    idle += std::max(0.0,
                     std::min(end, window.end) - std::max(begin, window.begin));
  }
  return idle / (window.end - window.begin);
}

double Bubble(const std::vector<StageTimes>& stages, int64_t first,
              int64_t last) {
  double sum = 0;
  for (const StageTimes& stage : stages) sum += IdleShare(stage, first, last);
  return sum / kStages;
}

// Of one stretch of so many microbatches after the other, in ascending order.
std::vector<double> Bubbles(const std::vector<StageTimes>& stages,
                            int64_t first, int64_t last, int64_t stretch) {
  std::vector<double> bubbles;
  for (int64_t at = first; at + stretch <= last; at += stretch) {
    bubbles.push_back(Bubble(stages, at, at + stretch));
  }
  std::ranges::sort(bubbles);
  return bubbles;
}

double Seconds(const json& times, bool idle) {
  double sum = 0;
  for (const auto& [phase, seconds] : times.items()) {
    if ((phase == "idle") == idle) sum += seconds.get<double>();
  }
  return sum;
}

// As the status has it, between two answers; status_test shows that the metrics
// of phase seconds say the same.
double IdleShareOfStatus(const json& from, const json& to, size_t stage) {
  const json& a = from.at("stages").at(stage).at("times");
  const json& b = to.at("stages").at(stage).at("times");
  const double idle = Seconds(b, true) - Seconds(a, true);
  return idle / (idle + Seconds(b, false) - Seconds(a, false));
}

constexpr int kMicrobatches = 8;

// A run that is traced for a while and then stopped.
struct TracedWhile {
  json trace;
  json before, after;           // status
  int64_t first = 0, last = 0;  // updates that are whole in the trace
};

class SynchronousTraceRun : public TraceRun {
 protected:
  static Command StartUrgently(const std::vector<std::string>& arguments) {
    const Urgency urgency;
    return Command(arguments);
  }
  CommandResult Trace(const char* verb, const std::string& run) {
    return test_support::Run(
        {"gimbal", "trace", verb, "--run-dir", folder_ / run});
  }
  json AwaitUpdate(Command& train, const std::string& run, int64_t update) {
    return AwaitStatus(train, run, [update](const json& status) {
      return status.at("update") >= update;
    });
  }

  void TraceFor(int64_t updates, const std::string& run, TracedWhile& traced) {
    auto arguments = Arguments("1f1b", 100000);
    arguments.insert(
        arguments.end(),
        {"--set", "batch.accumulate=" + std::to_string(kMicrobatches)});
    Command train = StartUrgently(TrainArguments(run, arguments));
    ASSERT_FALSE(AwaitUpdate(train, run, 2).is_null());
    const CommandResult started = Trace("start", run);
    ASSERT_EQ(started.exit_code, 0) << started.output;
    traced.before = AwaitUpdate(train, run, 5);
    ASSERT_FALSE(traced.before.is_null());
    EXPECT_EQ(traced.before.at("trace_every"), 1);
    traced.first = traced.before.at("update").get<int64_t>() + 1;
    traced.after = AwaitUpdate(train, run, traced.first + updates);
    ASSERT_FALSE(traced.after.is_null());
    traced.last = traced.after.at("update").get<int64_t>() - 1;
    EXPECT_EQ(Trace("stop", run).exit_code, 0);
    const json stopped = AwaitUpdate(train, run, traced.last + 4);
    ASSERT_FALSE(stopped.is_null());
    EXPECT_EQ(stopped.at("trace_every"), 0);
    traced.trace = Merge(run);
    test_support::Run({"gimbal", "stop", "--run-dir", folder_ / run});
    EXPECT_EQ(train.Wait(std::chrono::seconds(60)).exit_code, 4);
  }
};

// 1F1B with M microbatches waits (P-1)/(M+P-1) of the time. The trace is begun
// and ended while the run goes on, and the clocks are up to 5 s wrong.
TEST_F(SynchronousTraceRun, WaitsAsLongAsItMust) {
  const Environment skew("GIMBAL_TRACE_SKEW", "5");
  const Environment length("GIMBAL_STAGE_SECONDS", "0.02");
  const double expected = (kStages - 1.0) / (kMicrobatches + kStages - 1);
  double bubble = 1;
  for (int attempt = 0; attempt < 3 && std::abs(bubble - expected) > 0.03;
       ++attempt) {
    TracedWhile traced;
    ASSERT_NO_FATAL_FAILURE(
        TraceFor(36, "sync-" + std::to_string(attempt), traced));
    CheckFormat(traced.trace);
    EXPECT_EQ(traced.trace.at("otherData").at("processes").size(), kStages);
    CheckClocks(traced.trace, 5);
    EXPECT_GT(CheckFlows(traced.trace), 30 * kMicrobatches * 2 * (kStages - 1));
    const std::vector<StageTimes> stages = TimesOf(traced.trace);
    const int64_t from = traced.first * kMicrobatches;
    const int64_t to = traced.last * kMicrobatches;
    for (size_t stage = 0; stage < kStages; ++stage) {
      EXPECT_NEAR(IdleShare(stages[stage], from, to),
                  IdleShareOfStatus(traced.before, traced.after, stage), 0.02)
          << "stage " << stage;
    }
    const std::vector<double> bubbles =
        Bubbles(stages, from, to, 2 * kMicrobatches);
    bubble = bubbles.at(bubbles.size() / 2);
    std::printf(
        "1f1b, P = %d, M = %d: bubble %.1f%%, %.1f%% half of the time, "
        "expected %.1f%%\n",
        kStages, kMicrobatches, Bubble(stages, from, to) * 100, bubble * 100,
        expected * 100);
  }
  EXPECT_NEAR(bubble, expected, 0.03);
}

// Another coordinator has another clock, here one that is seconds off. What was
// measured against the two was once fitted as if it were one.
TEST_F(TraceRun, KeepsItsOrderWhenTheCoordinatorIsStartedAgain) {
  const Environment skew("GIMBAL_TRACE_SKEW", "5");
  const Environment length("GIMBAL_STAGE_SECONDS", "0.02");
  auto arguments = Arguments("async-1f1b", 100000);
  arguments.insert(arguments.end(), {"--set", "trace.every=1"});
  Command train(TrainArguments("again", arguments));
  // Some seconds of each: a sample comes with every heartbeat.
  ASSERT_TRUE(WaitForRows(train, "again", 150));
  const int first = CoordinatorPid("again");
  ASSERT_GT(first, 0);
  kill(first, SIGKILL);
  const json second = AwaitStatus(train, "again", [](const json& status) {
    return status.at("update") > 300;
  });
  ASSERT_FALSE(second.is_null());
  EXPECT_NE(CoordinatorPid("again"), first);
  test_support::Run({"gimbal", "stop", "--run-dir", folder_ / "again"});
  EXPECT_EQ(train.Wait(std::chrono::seconds(60)).exit_code, 4);
  const json merged = Merge("again");
  CheckFormat(merged);
  CheckClocks(merged, 5);
  EXPECT_GT(CheckFlows(merged), 300 * 2 * (kStages - 1) * 9 / 10);
}

TEST_F(TraceRun, AsynchronousStagesHardlyWait) {
  constexpr int kSteps = 300;
  const Environment length("GIMBAL_STAGE_SECONDS", "0.02");
  double bubble = 1;
  for (int attempt = 0; attempt < 5 && bubble > 0.03; ++attempt) {
    const std::string run = "async-" + std::to_string(attempt);
    auto arguments = Arguments("async-1f1b", kSteps);
    arguments.insert(arguments.end(), {"--set", "trace.every=1"});
    {
      const Urgency urgency;
      MustTrain(run, arguments);
    }
    const json merged = Merge(run);
    EXPECT_GT(CheckFlows(merged), kSteps * 2 * (kStages - 1) * 9 / 10);
    const std::vector<StageTimes> stages = TimesOf(merged);
    const std::vector<double> bubbles = Bubbles(stages, 20, kSteps - 20, 20);
    bubble = bubbles.at(bubbles.size() / 2);
    std::printf("async-1f1b, P = %d: bubble %.2f%%, %.2f%% half of the time\n",
                kStages, Bubble(stages, 20, kSteps - 20) * 100, bubble * 100);
  }
  EXPECT_LE(bubble, 0.03);
}

TEST_F(TraceRun, ChangesNoNumber) {
  MustTrain("plain", {"--workers", "2"});
  MustTrain("traced", {"--workers", "2", "--set", "trace.every=3"});
  EXPECT_EQ(Difference(NumbersOf("traced"), NumbersOf("plain")), "");
  const json merged = Merge("traced");
  for (const json& event : merged.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("name") != "update") continue;
    EXPECT_EQ(event.at("args").at("index").get<int>() % 3, 0);
  }

  const CommandResult nothing =
      test_support::Run({"gimbal", "trace", "merge", folder_ / "plain"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.output, HasSubstr("gimbal trace start"));
}

TEST_F(TraceRun, OnlyWarnsOfAFolderThatCannotBeWritten) {
  Command train(TrainArguments(
      "blocked", {"--workers", "2", "--set", "run.steps=1000000"}));
  ASSERT_TRUE(WaitForRows(train, "blocked", 5));
  std::ofstream(folder_ / "blocked/trace") << "in the way";
  EXPECT_EQ(test_support::Run(
                {"gimbal", "trace", "start", "--run-dir", folder_ / "blocked"})
                .exit_code,
            0);
  const auto warnings = [this] {
    return CountOf("no trace is recorded any more", Logs("blocked"));
  };
  const json status = AwaitStatus(train, "blocked",
                                  [&](const json&) { return warnings() >= 2; });
  ASSERT_FALSE(status.is_null());
  // Status says so as well, once for each.
  const json told = AwaitStatus(train, "blocked", [](const json& now) {
    return std::ranges::count_if(now.at("decisions"), [](const json& one) {
             return one.at("what").get<std::string>().ends_with(
                 "records no trace");
           }) == 2;
  });
  ASSERT_FALSE(told.is_null());
  // And why, wherever one may look.
  const std::string why =
      "cannot make the folder " + (folder_ / "blocked/trace");
  for (const json& worker : told.at("workers")) {
    EXPECT_THAT(worker.at("trace_failure").get<std::string>(), HasSubstr(why));
  }
  EXPECT_EQ(CountOf("records no trace\",\"reason\":\"" + why,
                    ReadText(folder_ / "blocked/events.jsonl")),
            2);
  EXPECT_EQ(CountOf("records no trace: " + why, Logs("blocked")), 2);
  // Where its lines are broken is the terminal's affair.
  const std::string shown = std::regex_replace(
      test_support::Run({"gimbal", "status", "--run-dir", folder_ / "blocked"})
          .output,
      std::regex("\n +"), " ");
  EXPECT_THAT(shown, HasSubstr("worker-0 records no trace: " + why));
  const int64_t update = told.at("update");
  ASSERT_TRUE(WaitForRows(train, "blocked", update + 50));
  EXPECT_EQ(warnings(), 2);
  test_support::Run({"gimbal", "stop", "--run-dir", folder_ / "blocked"});
  EXPECT_EQ(train.Wait(std::chrono::seconds(60)).exit_code, 4);
}

}  // namespace
}  // namespace gimbal
