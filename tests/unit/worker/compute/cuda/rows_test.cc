// Ops that work row by row, against the CPU's in double precision. Tolerances
// are relative to the largest number.
#include <tuple>

#include "tests/unit/worker/compute/cuda/device_array.h"
#include "worker/compute/cross_entropy.h"
#include "worker/compute/cuda/cross_entropy.h"
#include "worker/compute/cuda/embedding.h"
#include "worker/compute/cuda/layer_norm.h"
#include "worker/compute/embedding.h"
#include "worker/compute/isa.h"
#include "worker/compute/layer_norm.h"

namespace gimbal::compute::cuda {
namespace {

Floats Part(const Floats& all, int64_t begin, int64_t size) {
  return {all.begin() + begin, all.begin() + begin + size};
}

// Rows and columns: even, odd, one, wider than a block's first pass.
class LayerNormTest
    : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, LayerNormTest,
                         testing::Values(std::pair(5, 64), std::pair(3, 7),
                                         std::pair(1, 1), std::pair(2, 1100),
                                         std::pair(3, 301),
                                         std::pair(270, 12)));

template <typename T>
void ExpectLayerNorm(int64_t rows, int64_t cols) {
  const int64_t n = rows * cols;
  const Floats x = RandomOf<T>(n, 1), w = RandomFloats(cols, 2),
               b = RandomFloats(cols, 3), dy = RandomOf<T>(n, 4),
               dx = RandomOf<T>(n, 5), dw = RandomFloats(cols, 6),
               db = RandomFloats(cols, 7);
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<T> dev_x(x), y(n), d(dy), ddx(dx);
    const DeviceArray<float> dev_w(w), dev_b(b), mean(rows), rstd(rows),
        ddw(dw), ddb(db), scratch(LayerNormScratch(cols));
    LayerNormForward(stream.get(), rows, cols, 1e-5f, dev_x.data(),
                     dev_w.data(), dev_b.data(), y.data(), mean.data(),
                     rstd.data());
    LayerNormBackward(stream.get(), rows, cols, dev_x.data(), dev_w.data(),
                      dev_b.data(), mean.data(), rstd.data(), d.data(),
                      ddw.data(), ddb.data(), ddx.data(), scratch.data());
    return Joined({y.Values(stream), d.Values(stream), ddx.Values(stream),
                   ddw.Values(stream), ddb.Values(stream)});
  });
  const auto& cpu = Kernels<LayerNorm<double>>();
  const Doubles xd = ToDouble(x), wd = ToDouble(w), bd = ToDouble(b);
  Doubles y(n), mean(rows), rstd(rows), d = ToDouble(dy), ddx = ToDouble(dx),
                                        ddw = ToDouble(dw), ddb = ToDouble(db);
  cpu.forward(rows, cols, 1e-5, xd.data(), wd.data(), bd.data(), y.data(),
              mean.data(), rstd.data());
  cpu.backward(rows, cols, xd.data(), wd.data(), bd.data(), mean.data(),
               rstd.data(), d.data(), ddw.data(), ddb.data(), ddx.data());
  ExpectClose<T>(Part(got, 0, n), y, 3e-6, "y");
  ExpectClose<T>(Part(got, n, n), d, 3e-6, "y again");
  ExpectClose<T>(Part(got, 2 * n, n), ddx, 5e-6, "dx");
  ExpectClose(Part(got, 3 * n, cols), ddw, 5e-6, "dw");
  ExpectClose(Part(got, 3 * n + cols, cols), ddb, 5e-6, "db");
}

TEST_P(LayerNormTest, MatchesTheCpu) {
  const auto [rows, cols] = GetParam();
  ExpectLayerNorm<float>(rows, cols);
}

TEST_P(LayerNormTest, MatchesTheCpuInBf16) {
  const auto [rows, cols] = GetParam();
  ExpectLayerNorm<Bf16>(rows, cols);
}

// Wider than the tests above, whose many orders would take too long: packs fill
// every column that a thread may own.
TEST(LayerNormTest, TakesItsWidestRowsInBf16) {
  constexpr int64_t kRows = 2;
  for (const int64_t cols : {int64_t{5000}, kLayerNormMaxCols}) {
    const Floats x = RandomOf<Bf16>(kRows * cols, 1), w = RandomFloats(cols, 2),
                 b = RandomFloats(cols, 3);
    const Stream stream;
    const DeviceArray<Bf16> dev_x(x), y(kRows * cols), d(x), ddx(x);
    const DeviceArray<float> dev_w(w), dev_b(b), mean(kRows), rstd(kRows),
        ddw(w), ddb(b), scratch(LayerNormScratch(cols));
    LayerNormForward(stream.get(), kRows, cols, 1e-5f, dev_x.data(),
                     dev_w.data(), dev_b.data(), y.data(), mean.data(),
                     rstd.data());
    LayerNormBackward(stream.get(), kRows, cols, dev_x.data(), dev_w.data(),
                      dev_b.data(), mean.data(), rstd.data(), d.data(),
                      ddw.data(), ddb.data(), ddx.data(), scratch.data());
    EXPECT_EQ(d.Values(stream), y.Values(stream)) << cols;
  }
}

class CrossEntropyTest
    : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, CrossEntropyTest,
                         testing::Values(std::pair(3, 8), std::pair(4, 19),
                                         std::pair(1, 1), std::pair(2, 1025),
                                         std::pair(2, 2052)));

template <typename T>
void ExpectCrossEntropy(int64_t rows, int64_t vocab) {
  const int64_t n = rows * vocab;
  const Floats logits = RandomOf<T>(n, 1, 4);
  const std::vector<int32_t> targets = RandomIds(rows, vocab);
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<T> x(logits);
    const DeviceArray<float> losses(rows);
    const DeviceArray<int32_t> ids(targets);
    CrossEntropy(stream.get(), rows, vocab, 0.25f, ids.data(), x.data(),
                 losses.data());
    return Joined({x.Values(stream), losses.Values(stream)});
  });
  const auto& cpu = Kernels<compute::CrossEntropy<double>>();
  Doubles x = ToDouble(logits), lse(rows), losses(rows);
  for (int64_t i = 0; i < rows; ++i) {
    losses[static_cast<size_t>(i)] =
        cpu.forward(1, vocab, x.data() + i * vocab, &targets[i], &lse[i]);
  }
  cpu.backward(rows, vocab, targets.data(), lse.data(), 0.25, x.data());
  ExpectClose<T>(Part(got, 0, n), x, 1e-6, "gradient");
  ExpectClose(Part(got, n, rows), losses, 2e-6, "loss");
}

TEST_P(CrossEntropyTest, MatchesTheCpu) {
  const auto [rows, vocab] = GetParam();
  ExpectCrossEntropy<float>(rows, vocab);
}

TEST_P(CrossEntropyTest, MatchesTheCpuInBf16) {
  const auto [rows, vocab] = GetParam();
  ExpectCrossEntropy<Bf16>(rows, vocab);
}

TEST(CrossEntropyTest, HoldsExtremeLogits) {
  const Stream stream;
  const DeviceArray<float> x(Floats{1e30f, -1e30f, 0, -1e30f, -1e30f, 2e30f}),
      losses(2);
  const DeviceArray<int32_t> ids(std::vector<int32_t>{0, 2});
  CrossEntropy(stream.get(), 2, 3, 1, ids.data(), x.data(), losses.data());
  EXPECT_EQ(losses.Values(stream), (Floats{0, 0}));
  for (const float g : x.Values(stream)) EXPECT_EQ(g, 0);
}

class EmbeddingTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Columns, EmbeddingTest, testing::Values(8, 7, 1, 516));

// Sums run in the order of the CPU's, so they are the same bit for bit.
template <typename T>
void ExpectEmbedding(int64_t cols) {
  constexpr int64_t kSamples = 3, kContext = 5, kVocab = 11;
  constexpr int64_t kRows = kSamples * kContext;
  const std::vector<int32_t> tokens = RandomIds(kRows, kVocab);
  const Floats wte = RandomFloats(kVocab * cols, 1),
               wpe = RandomFloats(kContext * cols, 2),
               dy = RandomOf<T>(kRows * cols, 3);
  const TokenGroups groups = GroupTokens(kRows, kVocab, tokens.data());
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<int32_t> ids(tokens), token(groups.token),
        begin(groups.begin), row(groups.row);
    const DeviceArray<T> dev_dy(dy), y(kRows * cols);
    const DeviceArray<float> dev_wte(wte), dev_wpe(wpe), dwte(wte), dwpe(wpe);
    EmbeddingForward(stream.get(), kSamples, kContext, cols, ids.data(),
                     dev_wte.data(), dev_wpe.data(), y.data());
    EmbeddingBackward(stream.get(), kSamples, kContext, cols, groups.groups(),
                      token.data(), begin.data(), row.data(), dev_dy.data(),
                      dwte.data(), dwpe.data());
    return Joined({y.Values(stream), dwte.Values(stream), dwpe.Values(stream)});
  });
  const auto& cpu = Kernels<Embedding<float>>();
  Floats y(kRows * cols), dwte = wte, dwpe = wpe;
  cpu.forward(kSamples, kContext, cols, tokens.data(), wte.data(), wpe.data(),
              y.data());
  cpu.backward(kSamples, kContext, cols, tokens.data(), dy.data(), dwte.data(),
               dwpe.data());
  for (float& value : y) value = static_cast<float>(static_cast<T>(value));
  EXPECT_EQ(got, Joined({y, dwte, dwpe}));
}

TEST_P(EmbeddingTest, IsTheCpusBitForBit) {
  ExpectEmbedding<float>(GetParam());
}

TEST_P(EmbeddingTest, IsTheCpusRoundedInBf16) {
  ExpectEmbedding<Bf16>(GetParam());
}

TEST(GroupTokensTest, HasEveryRowOnceInOrder) {
  const std::vector<int32_t> tokens = {4, 1, 4, 0, 4};
  const TokenGroups groups = GroupTokens(5, 6, tokens.data());
  EXPECT_EQ(groups.token, (std::vector<int32_t>{0, 1, 4}));
  EXPECT_EQ(groups.begin, (std::vector<int32_t>{0, 1, 2, 5}));
  EXPECT_EQ(groups.row, (std::vector<int32_t>{3, 1, 0, 2, 4}));
}

}  // namespace
}  // namespace gimbal::compute::cuda
