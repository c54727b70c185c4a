#include "worker/data/batch_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace gimbal::worker {
namespace {

// Token i is i, so a sample's first token tells where it begins; that of token
// `changed` is one more. Counts reads that leave the corpus.
class CountingSource final : public TokenSource {
 public:
  explicit CountingSource(int64_t size, int64_t changed = -1)
      : size_(size), changed_(changed) {}
  int64_t size() const override { return size_; }
  void Read(int64_t begin, int64_t count, int32_t* out) const override {
    if (begin < 0 || count < 0 || begin + count > size_) ++bad_reads_;
    std::iota(out, out + count, static_cast<int32_t>(begin));
    if (begin <= changed_ && changed_ < begin + count) ++out[changed_ - begin];
  }
  int bad_reads() const { return bad_reads_; }

 private:
  int64_t size_;
  int64_t changed_;
  mutable int bad_reads_ = 0;
};

// First tokens of the first `count` samples.
std::vector<int64_t> Begins(const TokenSource& source, int context,
                            int microbatch, uint64_t seed, bool shuffle,
                            int64_t count) {
  const BatchSampler sampler(source, context, microbatch, seed, shuffle);
  std::vector<int64_t> begins;
  std::vector<int32_t> tokens(microbatch * context);
  std::vector<int32_t> targets(microbatch * context);
  for (int64_t j = 0; std::ssize(begins) < count; ++j) {
    sampler.Fill(j, tokens.data(), targets.data());
    for (int i = 0; i < microbatch && std::ssize(begins) < count; ++i) {
      begins.push_back(tokens[i * context]);
      for (int k = 0; k < context; ++k) {
        EXPECT_EQ(tokens[i * context + k], begins.back() + k);
        EXPECT_EQ(targets[i * context + k], begins.back() + k + 1);
      }
    }
  }
  return begins;
}

// Windows of one epoch, as the header promises them.
int64_t Windows(int64_t size, int context, bool shuffle) {
  const int64_t targets = size - 1;
  return shuffle ? std::max<int64_t>(1, (targets + 1) / context - 1)
                 : targets / context;
}

TEST(BatchSamplerTest, AnEpochVisitsEveryWindowOnce) {
  for (const int context : {1, 2, 3, 8}) {
    for (int64_t size = context + 1; size <= 6 * context + 3; ++size) {
      const CountingSource source(size);
      const int64_t windows = Windows(size, context, true);
      const auto begins = Begins(source, context, 3, 42, true, 20 * windows);
      for (int epoch = 0; epoch < 20; ++epoch) {
        std::vector<int64_t> sorted(begins.begin() + epoch * windows,
                                    begins.begin() + (epoch + 1) * windows);
        std::ranges::sort(sorted);
        for (int64_t w = 0; w < windows; ++w) {
          ASSERT_EQ(sorted[w], sorted[0] + w * context)
              << "context " << context << ", size " << size;
        }
        ASSERT_GE(sorted[0], 0);
        ASSERT_LE(sorted.back() + context + 1, size);
      }
      EXPECT_EQ(source.bad_reads(), 0);
    }
  }
}

TEST(BatchSamplerTest, OffsetsReachEveryToken) {
  for (const int64_t size : {9, 12, 16, 17, 23, 24, 25, 31, 32, 33, 40, 47}) {
    const CountingSource source(size);
    std::set<int64_t> used;
    const int64_t windows = Windows(size, 8, true);
    for (const int64_t begin : Begins(source, 8, 1, 7, true, 400 * windows)) {
      for (int64_t k = 0; k <= 8; ++k) used.insert(begin + k);
    }
    EXPECT_EQ(std::ssize(used), size) << size;
  }
}

TEST(BatchSamplerTest, AlmostAllOfTheCorpusIsAnEpoch) {
  EXPECT_GE(Windows(100'000, 128, true) * 128, 100'000 - 2 * 128);
  const CountingSource source(100'000);
  const auto begins =
      Begins(source, 128, 8, 1, true, Windows(100'000, 128, true));
  EXPECT_EQ(std::set<int64_t>(begins.begin(), begins.end()).size(),
            begins.size());
}

TEST(BatchSamplerTest, TheShortestCorpusHasOneWindow) {
  const CountingSource source(9);
  for (const bool shuffle : {true, false}) {
    for (const int64_t begin : Begins(source, 8, 4, 5, shuffle, 40)) {
      EXPECT_EQ(begin, 0);
    }
  }
}

TEST(BatchSamplerTest, InOrderWithoutShuffle) {
  for (const int64_t size : {33, 34, 40}) {
    const CountingSource source(size);
    EXPECT_THAT(Begins(source, 8, 3, 5, false, 9),
                testing::ElementsAre(0, 8, 16, 24, 0, 8, 16, 24, 0));
  }
}

TEST(BatchSamplerTest, IsAPureFunctionOfSeedAndIndex) {
  const CountingSource source(1000);
  const BatchSampler a(source, 16, 4, 99, true);
  const BatchSampler b(source, 16, 4, 99, true);
  std::vector<int32_t> forward(64);
  std::vector<int32_t> backward(64);
  std::map<int64_t, std::vector<int32_t>> seen;
  for (int64_t j = 0; j < 50; ++j) {
    a.Fill(j, forward.data(), nullptr);
    seen[j] = forward;
  }
  for (int64_t j = 49; j >= 0; --j) {
    b.Fill(j, backward.data(), nullptr);
    EXPECT_EQ(backward, seen[j]);
    EXPECT_EQ(a.Digest(j), b.Digest(j));
  }
}

TEST(BatchSamplerTest, SamplesDoNotDependOnTheMicrobatchSize) {
  const CountingSource source(1000);
  EXPECT_EQ(Begins(source, 16, 1, 3, true, 200),
            Begins(source, 16, 8, 3, true, 200));
}

TEST(BatchSamplerTest, SeedsAndEpochsHaveTheirOwnOrder) {
  const CountingSource source(16 * 102);
  const int64_t windows = Windows(source.size(), 16, true);
  const auto one = Begins(source, 16, 4, 1, true, 2 * windows);
  const auto two = Begins(source, 16, 4, 2, true, 2 * windows);
  int same_seed = 0;
  int same_epoch = 0;
  int in_order = 0;
  for (int64_t i = 0; i < windows; ++i) {
    same_seed += one[i] / 16 == two[i] / 16;
    same_epoch += one[i] / 16 == one[i + windows] / 16;
    in_order += one[i] / 16 == i;
  }
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(in_order, 10);
}

TEST(BatchSamplerTest, OffsetsDifferBetweenEpochs) {
  const CountingSource source(16 * 12);
  const int64_t windows = Windows(source.size(), 16, true);
  const auto begins = Begins(source, 16, 4, 1, true, 200 * windows);
  std::set<int64_t> offsets;
  for (const int64_t begin : begins) offsets.insert(begin % 16);
  EXPECT_EQ(offsets.size(), 16);
}

TEST(BatchSamplerTest, DigestsTellMicrobatchesApart) {
  const CountingSource source(100'000);
  std::set<uint64_t> digests;
  for (const uint64_t seed : {1, 2}) {
    const BatchSampler sampler(source, 16, 4, seed, true);
    for (int64_t j = 0; j < 1000; ++j) digests.insert(sampler.Digest(j));
  }
  EXPECT_EQ(digests.size(), 2000);
}

// Two workers with files of one size and other contents.
TEST(BatchSamplerTest, DigestsTellCorporaOfOneSizeApart) {
  constexpr int kContext = 300;
  const CountingSource source(2 * kContext + 1);
  const BatchSampler sampler(source, kContext, 2, 1, /*shuffle=*/false);
  for (int64_t changed = 0; changed < source.size(); ++changed) {
    const CountingSource other(source.size(), changed);
    EXPECT_NE(sampler.Digest(0),
              BatchSampler(other, kContext, 2, 1, false).Digest(0))
        << changed;
  }
}

// Workers on different machines compare digests.
TEST(BatchSamplerTest, DigestsStayWhatTheyAre) {
  const CountingSource source(1000);
  EXPECT_EQ(BatchSampler(source, 16, 4, 1, false).Digest(3),
            7968822190546591428u);
}

TEST(BatchSamplerTest, WorksFarIntoALongRun) {
  const CountingSource source(1000);
  const BatchSampler sampler(source, 16, 8, 1, true);
  std::vector<int32_t> tokens(128);
  sampler.Fill(int64_t{1} << 50, tokens.data(), nullptr);
  sampler.Fill((int64_t{1} << 50) + 1, nullptr, tokens.data());
  EXPECT_EQ(source.bad_reads(), 0);
  EXPECT_NE(sampler.Digest(int64_t{1} << 50),
            sampler.Digest((int64_t{1} << 50) + 1));
}

}  // namespace
}  // namespace gimbal::worker
