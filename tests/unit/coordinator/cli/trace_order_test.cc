#include "coordinator/cli/trace_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gimbal::cli {
namespace {

using trace::Span;
using trace::SpanKind;

constexpr int64_t kMs = 1'000'000;

// Two processes that send each other a message every 10 ms, both on their way
// for 2 ms; the second one's spans are moved by what `moved` says of them.
template <typename Moved>
MergedTrace PingPong(Moved moved) {
  MergedTrace trace;
  trace.processes.resize(2);
  const auto add = [&](size_t p, SpanKind kind, int64_t at_ms) {
    const int64_t at = at_ms * kMs + (p == 1 ? moved(at_ms) : 0);
    trace.processes[p].spans.push_back(
        {.begin_ns = at, .end_ns = at + kMs, .kind = kind});
    return trace.processes[p].spans.size() - 1;
  };
  for (int64_t i = 0; i < 20; ++i) {
    const size_t sent = add(0, SpanKind::kSend, 10 * i);
    const size_t received = add(1, SpanKind::kRecv, 10 * i + 2);
    trace.flows.push_back({0, sent, 1, received});
    const size_t answered = add(1, SpanKind::kSend, 10 * i + 4);
    const size_t arrived = add(0, SpanKind::kRecv, 10 * i + 6);
    trace.flows.push_back({1, answered, 0, arrived});
  }
  return trace;
}

void ExpectOrder(const MergedTrace& trace) {
  for (const Flow& flow : trace.flows) EXPECT_GE(TravelNs(trace, flow), 0);
  for (const ProcessTrace& process : trace.processes) {
    for (size_t s = 0; s < process.spans.size(); ++s) {
      EXPECT_GE(process.spans[s].end_ns, process.spans[s].begin_ns);
      if (s == 0) continue;
      EXPECT_GE(process.spans[s].begin_ns, process.spans[s - 1].end_ns);
    }
  }
}

TEST(TraceOrder, WhatIsInOrderStaysWhereItIs) {
  MergedTrace trace = PingPong([](int64_t) { return 0; });
  OrderByMessages(trace);
  EXPECT_EQ(trace.processes[1].spans[0].begin_ns, 2 * kMs);
  EXPECT_EQ(trace.processes[0].correction_ns, 0);
  EXPECT_EQ(trace.stretches, 0);
}

TEST(TraceOrder, AGroupOfItsOwnIsPlacedByWhatItExchanges) {
  MergedTrace trace = PingPong([](int64_t) { return -3000 * kMs; });
  trace.processes[1].clock.group = 1;
  OrderByMessages(trace);
  ExpectOrder(trace);
  EXPECT_EQ(trace.processes[1].spans[0].begin_ns, 2 * kMs);
  EXPECT_EQ(trace.processes[1].doubt_ns, 2 * kMs);
  EXPECT_EQ(trace.stretches, 0);
}

// As a clock that is slewed, or was measured wrong: no constant puts both ends
// in order.
TEST(TraceOrder, WhereNoConstantWillDoTheAxisIsStretched) {
  MergedTrace trace =
      PingPong([](int64_t at_ms) { return at_ms < 100 ? 0 : -7 * kMs; });
  OrderByMessages(trace);
  ASSERT_EQ(trace.flows.size(), 40u);
  ExpectOrder(trace);
  EXPECT_GT(trace.stretches, 0);
  EXPECT_LE(trace.stretched_ns, 7 * kMs);
  EXPECT_EQ(trace.contradictions, 0);
}

TEST(TraceOrder, AMessageThatCannotBeHasNoArrow) {
  MergedTrace trace = PingPong([](int64_t) { return 0; });
  // Received before what its sender had to receive first.
  const auto last = std::ranges::find_if(trace.flows, [](const Flow& flow) {
    return flow.from_process == 0 && flow.from_span > 10;
  });
  last->to_span = 0;
  trace.flows.erase(trace.flows.begin());
  OrderByMessages(trace);
  EXPECT_EQ(trace.flows.size(), 38u);
  EXPECT_EQ(trace.contradictions, 1);
  ExpectOrder(trace);
}

}  // namespace
}  // namespace gimbal::cli
