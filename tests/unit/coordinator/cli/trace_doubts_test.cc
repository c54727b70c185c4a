#include "coordinator/cli/trace_doubts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gimbal::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

MergedTrace TraceOf(int group, int64_t uncertainty_ns, int64_t doubt_ns) {
  MergedTrace trace;
  trace.processes.resize(1);
  trace.processes[0].header = {.worker = "a", .pid = 7};
  trace.processes[0].clock.group = group;
  trace.processes[0].clock.line.uncertainty_ns = uncertainty_ns;
  trace.processes[0].doubt_ns = doubt_ns;
  return trace;
}

TEST(TraceDoubts, ThereAreNoneOfAClockThatWasMeasured) {
  const MergedTrace trace = TraceOf(0, kMs, -1);
  EXPECT_THAT(DoubtsOf(trace), IsEmpty());
  EXPECT_EQ(DoubtNs(trace.processes[0]), kMs);
}

TEST(TraceDoubts, SaysWhenNothingLinksTwoCoordinators) {
  const MergedTrace trace = TraceOf(1, kMs, -1);
  EXPECT_THAT(DoubtsOf(trace),
              ElementsAre(AllOf(HasSubstr("a (pid 7)"),
                                HasSubstr("and nobody measured both"),
                                HasSubstr("how far off is not known"))));
  EXPECT_LT(DoubtNs(trace.processes[0]), 0);
}

// One sentence, however many workers of the other session there are.
TEST(TraceDoubts, SpeaksOfAllThatHaveTheSameAtOnce) {
  MergedTrace trace = TraceOf(1, kMs, 4 * kMs);
  trace.processes.push_back(trace.processes[0]);
  trace.processes[1].header.worker = "b";
  trace.processes[1].clock.line.uncertainty_ns = 2 * kMs;
  EXPECT_THAT(DoubtsOf(trace),
              ElementsAre(AllOf(HasSubstr("a (pid 7), b (pid 7) were"),
                                HasSubstr("to within 6.000 ms"))));
}

TEST(TraceDoubts, SaysHowMuchMessagesLeaveOpen) {
  const MergedTrace trace = TraceOf(1, kMs, 4 * kMs);
  EXPECT_THAT(DoubtsOf(trace), ElementsAre(HasSubstr("to within 5.000 ms")));
}

TEST(TraceDoubts, SaysWhatIsMissingAndWhatWasBent) {
  MergedTrace trace = TraceOf(0, kMs, -1);
  trace.processes[0].lost = 3;
  trace.stretches = 2;
  trace.stretched_ns = kMs / 2;
  trace.contradictions = 1;
  EXPECT_THAT(DoubtsOf(trace), ElementsAre(HasSubstr("lost 3 spans"),
                                           HasSubstr("up to 0.500 ms"),
                                           HasSubstr("1 messages contradict")));
}

}  // namespace
}  // namespace gimbal::cli
