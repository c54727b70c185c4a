// Made up runs on machines whose clocks are wrong in every way: what was sent
// before it was received stands so in the merged trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "coordinator/cli/trace_merge.h"

namespace gimbal::cli {
namespace {

using trace::Span;
using trace::SpanKind;
using trace::TraceContent;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int kProcesses = 4;
constexpr int64_t kMessages = 2000;

using Random = std::mt19937_64;

int64_t Between(Random& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

// Up to 5 s wrong, and every few seconds going at another rate: within 0.2% of
// the right one, ten times as much as machines do.
class Clock {
 public:
  explicit Clock(Random& random)
      : ahead_ns_(Between(random, -5 * kSecond, 5 * kSecond)) {
    for (double& rate : faster_) {
      rate = static_cast<double>(Between(random, -2000, 2000)) / 1e6;
    }
  }
  int64_t At(int64_t true_ns) const {
    double ahead = 0;
    int64_t left = true_ns;
    for (size_t i = 0; left > 0; ++i) {
      const int64_t piece = std::min(left, kPiece);
      ahead += faster_[i % std::size(faster_)] * static_cast<double>(piece);
      left -= piece;
    }
    return true_ns + ahead_ns_ + static_cast<int64_t>(ahead);
  }

 private:
  static constexpr int64_t kPiece = 3 * kSecond;
  const int64_t ahead_ns_;
  double faster_[5];
};

// Messages down and up a pipeline, each process one thing after the other.
std::vector<TraceContent> Record(Random& random) {
  const Clock first(random), second(random);  // the coordinator's lives
  std::vector<Clock> clocks;
  std::vector<TraceContent> files(kProcesses);
  std::vector<int64_t> free(kProcesses, 0);  // from this time on
  for (int p = 0; p < kProcesses; ++p) clocks.emplace_back(random);
  const auto add = [&](int p, SpanKind kind, int edge, bool down, int64_t index,
                       int64_t not_before) {
    const auto at = static_cast<size_t>(p);
    const int64_t begin = std::max(free[at], not_before);
    const int64_t end = begin + Between(random, 1000, 2 * kMs);
    free[at] = end;
    files[at].spans.push_back({.begin_ns = clocks[at].At(begin),
                               .end_ns = clocks[at].At(end),
                               .index = index,
                               .stage = static_cast<int16_t>(p),
                               .kind = kind,
                               .message = static_cast<uint8_t>(down ? 1 : 2),
                               .edge = static_cast<int16_t>(edge)});
    return begin;
  };
  for (int64_t i = 0; i < kMessages; ++i) {
    for (const bool down : {true, false}) {
      for (int edge = 0; edge + 1 < kProcesses; ++edge) {
        const int e = down ? edge : kProcesses - 2 - edge;
        const int64_t sent =
            add(down ? e : e + 1, SpanKind::kSend, e, down, i, 0);
        add(down ? e + 1 : e, SpanKind::kRecv, e, down, i,
            sent + Between(random, 1000, kMs));
      }
    }
  }
  const int64_t all = *std::ranges::max_element(free);
  for (int p = 0; p < kProcesses; ++p) {
    const auto at = static_cast<size_t>(p);
    files[at].header = {.worker = std::string(1, static_cast<char>('a' + p)),
                        .pid = 1};
    for (int64_t now = 0; now < all; now += kSecond / 2) {
      const bool again = now > all / 2;
      const int64_t own = clocks[at].At(now);
      const int64_t open = Between(random, kMs / 10, 5 * kMs);
      const int64_t other = (again ? second : first).At(now);
      files[at].spans.push_back(
          {.index = again ? 2 : 1, .kind = SpanKind::kClockOf});
      files[at].spans.push_back(
          {.begin_ns = own,
           .end_ns = other - own + Between(random, -open, open),
           .index = open,
           .kind = SpanKind::kClock});
    }
  }
  return files;
}

TEST(TraceAnyClock, EverySendStandsBeforeItsReceive) {
  int64_t stretched = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const MergedTrace trace = MergeTraces(Record(random));
    ASSERT_EQ(trace.flows.size(), kMessages * 2 * (kProcesses - 1));
    EXPECT_EQ(trace.contradictions, 0);
    for (const Flow& flow : trace.flows) ASSERT_GE(TravelNs(trace, flow), 0);
    for (const ProcessTrace& process : trace.processes) {
      for (size_t s = 1; s < process.spans.size(); ++s) {
        ASSERT_GE(process.spans[s].begin_ns, process.spans[s - 1].end_ns - 1);
        ASSERT_GE(process.spans[s].end_ns, process.spans[s].begin_ns);
      }
    }
    stretched = std::max(stretched, trace.stretched_ns);
  }
  // The clocks are as bad as that, and the messages still hold them together.
  EXPECT_GT(stretched, 0);
  EXPECT_LT(stretched, 100 * kMs);
}

}  // namespace
}  // namespace gimbal::cli
