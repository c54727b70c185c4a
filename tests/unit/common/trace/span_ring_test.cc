#include "common/trace/span_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gimbal::trace {
namespace {

TEST(SpanRing, KeepsTheOrderAcrossItsEnd) {
  SpanRing ring;
  std::vector<Span> taken;
  int64_t added = 0;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < SpanRing::kCapacity - 7; ++i) {
      ring.Add({.index = added++});
    }
    ring.TakeAll(taken);
  }
  ASSERT_EQ(taken.size(), static_cast<size_t>(added));
  for (size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i].index, static_cast<int64_t>(i));
  }
  EXPECT_EQ(ring.TakeLost(), 0);
}

TEST(SpanRing, CountsWhatFindsNoRoom) {
  SpanRing ring;
  for (size_t i = 0; i < SpanRing::kCapacity + 5; ++i) ring.Add({});
  std::vector<Span> taken;
  ring.TakeAll(taken);
  EXPECT_EQ(taken.size(), SpanRing::kCapacity);
  EXPECT_EQ(ring.TakeLost(), 5);
  EXPECT_EQ(ring.TakeLost(), 0);
}

TEST(SpanRing, HandsSpansToAnotherThread) {
  constexpr int64_t kSpans = 200'000;
  SpanRing ring;
  std::thread producer([&] {
    for (int64_t i = 0; i < kSpans; ++i) ring.Add({.begin_ns = i, .index = i});
  });
  std::vector<Span> taken;
  int64_t lost = 0;
  while (static_cast<int64_t>(taken.size()) + lost < kSpans) {
    ring.TakeAll(taken);
    lost += ring.TakeLost();
  }
  producer.join();
  for (size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i].begin_ns, taken[i].index);
    if (i > 0) {
      ASSERT_GT(taken[i].index, taken[i - 1].index);
    }
  }
}

}  // namespace
}  // namespace gimbal::trace
