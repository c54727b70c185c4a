#include "worker/compute/embedding.h"

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::RandomValues;

constexpr int64_t kSamples = 2;
constexpr int64_t kContext = 3;
constexpr int64_t kCols = 37;
constexpr int64_t kVocab = 5;
const std::vector<int32_t> kTokens = {4, 1, 4, 4, 0, 2};

class EmbeddingTest : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isa, EmbeddingTest,
                         ::testing::ValuesIn(SupportedIsas()), IsaName);

TEST_P(EmbeddingTest, AddsTokenAndPosition) {
  const auto wte = RandomValues<float>(kVocab * kCols, "wte");
  const auto wpe = RandomValues<float>(kContext * kCols, "wpe");
  std::vector<float> y(kTokens.size() * kCols);
  KernelsFor<Embedding<float>>(GetParam())
      .forward(kSamples, kContext, kCols, kTokens.data(), wte.data(),
               wpe.data(), y.data());
  for (size_t row = 0; row < kTokens.size(); ++row) {
    for (int64_t j = 0; j < kCols; ++j) {
      EXPECT_EQ(y[row * kCols + j], wte[kTokens[row] * kCols + j] +
                                        wpe[row % kContext * kCols + j]);
    }
  }
}

TEST_P(EmbeddingTest, BackwardAddsEveryUseOfARow) {
  const auto dy = RandomValues<double>(6 * kCols, "dy");
  std::vector<double> dwte(kVocab * kCols, 1.0);
  std::vector<double> dwpe(kContext * kCols, 2.0);
  KernelsFor<Embedding<double>>(GetParam())
      .backward(kSamples, kContext, kCols, kTokens.data(), dy.data(),
                dwte.data(), dwpe.data());
  for (int64_t j = 0; j < kCols; ++j) {
    EXPECT_DOUBLE_EQ(dwte[4 * kCols + j],
                     1.0 + dy[j] + dy[2 * kCols + j] + dy[3 * kCols + j]);
    EXPECT_EQ(dwte[3 * kCols + j], 1.0);  // not used
    EXPECT_DOUBLE_EQ(dwpe[1 * kCols + j],
                     2.0 + dy[kCols + j] + dy[4 * kCols + j]);
  }
}

}  // namespace
}  // namespace gimbal::compute
