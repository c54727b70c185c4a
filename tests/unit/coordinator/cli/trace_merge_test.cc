#include "coordinator/cli/trace_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/io/file.h"
#include "coordinator/cli/trace_doubts.h"
#include "coordinator/cli/trace_json.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::cli {
namespace {

using trace::Span;
using trace::SpanKind;
using trace::TraceContent;

constexpr int64_t kMs = 1'000'000;

// A process whose clock is `ahead_ns` ahead of the coordinator's, and measured
// wrong by `error_ns`.
TraceContent File(const std::string& worker, int64_t ahead_ns, int64_t error_ns,
                  std::vector<Span> spans) {
  for (Span& span : spans) {
    span.begin_ns += ahead_ns;
    span.end_ns += ahead_ns;
  }
  spans.push_back({.begin_ns = ahead_ns,
                   .end_ns = -ahead_ns + error_ns,
                   .index = 2 * kMs,
                   .kind = SpanKind::kClock});
  return {.header = {.run = "r", .worker = worker, .pid = 1},
          .spans = std::move(spans)};
}

Span Transfer(SpanKind kind, int stage, int64_t at_ms, int64_t index) {
  return {.begin_ns = at_ms * kMs,
          .end_ns = at_ms * kMs + kMs / 2,
          .index = index,
          .stage = static_cast<int16_t>(stage),
          .kind = kind,
          .message = 1,
          .edge = 0};
}

TEST(TraceMerge, NoMessageIsReceivedBeforeItWasSent) {
  // Messages take a millisecond; the clocks are known to two, and are wrong by
  // that in the worst way.
  std::vector<Span> sends, receives;
  for (int64_t i = 0; i < 10; ++i) {
    sends.push_back(Transfer(SpanKind::kSend, 0, 10 * i, i));
    receives.push_back(Transfer(SpanKind::kRecv, 1, 10 * i + 1, i));
  }
  const MergedTrace trace =
      MergeTraces({File("a", 5'000 * kMs, 2 * kMs, sends),
                   File("b", -5'000 * kMs, -2 * kMs, receives)});
  ASSERT_EQ(trace.flows.size(), 10u);
  EXPECT_EQ(trace.stretches, 0);
  for (const Flow& flow : trace.flows) EXPECT_GE(TravelNs(trace, flow), 0);
  // By no more than it takes.
  EXPECT_EQ(trace.processes[1].correction_ns, 3 * kMs);
}

TEST(TraceMerge, ClocksThatAgreeAreLeftAlone) {
  const MergedTrace trace = MergeTraces(
      {File("a", 0, 0, {Transfer(SpanKind::kSend, 0, 0, 0)}),
       File("b", 70 * kMs, 0, {Transfer(SpanKind::kRecv, 1, 1, 0)})});
  ASSERT_EQ(trace.flows.size(), 1u);
  EXPECT_EQ(TravelNs(trace, trace.flows[0]), kMs);
  EXPECT_EQ(trace.processes[1].correction_ns, 0);
}

// A stage that was lost and replayed sends the same messages again.
TEST(TraceMerge, AReceiveBelongsToTheNewestSendBeforeIt) {
  const MergedTrace trace =
      MergeTraces({File("a", 0, 0, {Transfer(SpanKind::kSend, 0, 0, 4)}),
                   File("b", 0, 0, {Transfer(SpanKind::kSend, 0, 3000, 4)}),
                   File("c", 0, 0, {Transfer(SpanKind::kRecv, 1, 3001, 4)})});
  ASSERT_EQ(trace.flows.size(), 1u);
  EXPECT_EQ(trace.flows[0].from_process, 1u);
}

// The send of the process that was lost is not taken for that of its successor
// because the clocks are not known any better.
TEST(TraceMerge, AReceiveMayStandALittleBeforeItsSend) {
  const MergedTrace trace = MergeTraces(
      {File("a", 0, 0, {Transfer(SpanKind::kSend, 0, 0, 4)}),
       File("b", 0, 2 * kMs, {Transfer(SpanKind::kSend, 0, 3000, 4)}),
       File("c", 0, 0, {Transfer(SpanKind::kRecv, 1, 3001, 4)})});
  ASSERT_EQ(trace.flows.size(), 1u);
  EXPECT_EQ(trace.flows[0].from_process, 1u);
  EXPECT_GE(TravelNs(trace, trace.flows[0]), 0);
}

Span ClockOf(int64_t clock) {
  return {.index = clock, .kind = SpanKind::kClockOf};
}

// What is `ahead_ms` behind the clock of the one that answered.
Span Answer(int64_t at_ms, int64_t ahead_ms) {
  return {.begin_ns = at_ms * kMs,
          .end_ns = ahead_ms * kMs,
          .index = 1000,
          .kind = SpanKind::kClock};
}

// The samples of both were once fitted as one line, which then led from the
// clock of the one to that of the other.
TEST(TraceMerge, ACoordinatorThatIsStartedAgainHasAnotherClock) {
  constexpr int64_t kAhead = 4000;  // of the second coordinator, in ms
  std::vector<TraceContent> files(2);
  for (size_t p = 0; p < files.size(); ++p) {
    files[p].header = {.worker = p == 0 ? "a" : "b", .pid = 1};
    std::vector<Span>& spans = files[p].spans;
    spans.push_back(ClockOf(71));
    for (int64_t s = 0; s < 5; ++s) spans.push_back(Answer(1000 * s, 0));
    spans.push_back(ClockOf(72));
    for (int64_t s = 5; s < 10; ++s) spans.push_back(Answer(1000 * s, kAhead));
    for (int64_t i = 0; i < 100; ++i) {
      spans.push_back(p == 0 ? Transfer(SpanKind::kSend, 0, 100 * i, i)
                             : Transfer(SpanKind::kRecv, 1, 100 * i + 1, i));
    }
  }
  const MergedTrace trace = MergeTraces(std::move(files));
  ASSERT_EQ(trace.flows.size(), 100u);
  for (const Flow& flow : trace.flows) EXPECT_EQ(TravelNs(trace, flow), kMs);
  EXPECT_EQ(trace.processes[0].clock.line.drift, 0);
  EXPECT_EQ(trace.processes[0].spans[99].begin_ns -
                trace.processes[0].spans[0].begin_ns,
            9900 * kMs);
  EXPECT_TRUE(DoubtsOf(trace).empty());
}

// As in a container, where the pid is always the same.
TEST(TraceMerge, AWorkerThatIsStartedAgainHasAnotherClock) {
  TraceContent first = File("a", 0, 0, {Transfer(SpanKind::kSend, 0, 0, 0)});
  first.header.clock = 11;
  TraceContent second =
      File("a", 5000 * kMs, 0, {Transfer(SpanKind::kSend, 0, 100, 1)});
  second.header.clock = 12;
  const MergedTrace trace = MergeTraces({first, second});
  ASSERT_EQ(trace.processes.size(), 2u);
  EXPECT_EQ(trace.processes[1].spans[0].begin_ns -
                trace.processes[0].spans[0].begin_ns,
            100 * kMs);
}

// As after a stop and a resumption, when the later coordinator's machine thinks
// that it is earlier.
TEST(TraceMerge, AReceiveIsRatherOfASendThatItsClockIsKnownAgainst) {
  std::vector<TraceContent> files;
  for (const int64_t session : {1, 2}) {
    const int64_t back_ms = session == 1 ? 0 : 2;
    for (const char* worker : {"a", "b", "c"}) {
      TraceContent file;
      file.header = {.worker = worker, .pid = session};
      file.spans = {ClockOf(session), Answer(0, 0)};
      if (*worker == 'a') {
        file.spans.push_back(Transfer(SpanKind::kSend, 0, 10 + back_ms, 4));
      } else if (*worker == 'b') {
        file.spans.push_back(Transfer(SpanKind::kRecv, 1, 14 + back_ms, 4));
      }
      files.push_back(std::move(file));
    }
  }
  const MergedTrace trace = MergeTraces(std::move(files));
  ASSERT_EQ(trace.flows.size(), 2u);
  for (const Flow& flow : trace.flows) {
    EXPECT_EQ(trace.processes[flow.from_process].header.pid,
              trace.processes[flow.to_process].header.pid);
  }
}

TEST(TraceMerge, EveryMomentOfAStageIsCountedOnce) {
  const Span forward = {.begin_ns = 10 * kMs,
                        .end_ns = 30 * kMs,
                        .index = 1,
                        .kind = SpanKind::kForward};
  const Span idle = {
      .begin_ns = 0, .end_ns = 10 * kMs, .kind = SpanKind::kIdle};
  Span send = Transfer(SpanKind::kSend, 0, 28, 1);
  send.end_ns = 30 * kMs;
  const auto seconds =
      SecondsByStage(MergeTraces({File("a", 0, 0, {send, forward, idle})}));
  EXPECT_NEAR(seconds.at(0).at("idle"), 0.010, 1e-9);
  EXPECT_NEAR(seconds.at(0).at("forward"), 0.018, 1e-9);
  EXPECT_NEAR(seconds.at(0).at("send"), 0.002, 1e-9);
}

TEST(TraceMerge, FilesOfOneProcessBecomeOne) {
  const MergedTrace trace =
      MergeTraces({File("a", 0, 0, {Transfer(SpanKind::kSend, 0, 0, 0)}),
                   File("a", 0, 0, {Transfer(SpanKind::kSend, 0, 9, 1)})});
  ASSERT_EQ(trace.processes.size(), 1u);
  EXPECT_EQ(trace.processes[0].spans.size(), 2u);
}

TEST(TraceJson, IsReadByAnyReaderOfTheFormat) {
  const test_support::TempDir dir;
  const MergedTrace trace = MergeTraces(
      {File("a \"quoted\"", 0, 0, {Transfer(SpanKind::kSend, 0, 0, 0)}),
       File("b", 0, 0, {Transfer(SpanKind::kRecv, 1, 1, 0)})});
  ASSERT_THAT(WriteTraceJson(trace, dir / "t.json"), test_support::IsOk());
  const auto json = nlohmann::json::parse(*io::ReadFile(dir / "t.json"));
  int spans = 0, begins = 0, ends = 0;
  for (const auto& event : json.at("traceEvents")) {
    const std::string phase = event.at("ph");
    EXPECT_TRUE(event.at("pid").is_number_integer());
    EXPECT_TRUE(event.at("tid").is_number_integer());
    if (phase == "X") {
      ++spans;
      EXPECT_GE(event.at("ts").get<double>(), 0);
      EXPECT_EQ(event.at("dur"), 500);
    }
    begins += phase == "s";
    ends += phase == "f" && event.at("bp") == "e";
  }
  EXPECT_EQ(spans, 2);
  EXPECT_EQ(begins, 1);
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace gimbal::cli
