#include "worker/compute/cross_entropy.h"

#include <limits>

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::ExpectClose;
using gimbal::testing::ExpectGradient;
using gimbal::testing::RandomValues;

constexpr int64_t kRows = 3;
constexpr int64_t kVocab = 77;
const std::vector<int32_t> kTargets = {5, 76, 0};

template <typename T>
double Loss(Isa isa, const std::vector<T>& logits, std::vector<T>* lse) {
  lse->resize(kRows);
  return KernelsFor<CrossEntropy<T>>(isa).forward(kRows, kVocab, logits.data(),
                                                  kTargets.data(), lse->data());
}

template <typename T>
std::vector<T> Gradient(Isa isa, std::vector<T> logits, T scale) {
  std::vector<T> lse;
  Loss(isa, logits, &lse);
  KernelsFor<CrossEntropy<T>>(isa).backward(kRows, kVocab, kTargets.data(),
                                            lse.data(), scale, logits.data());
  return logits;
}

class CrossEntropyTest : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isa, CrossEntropyTest,
                         ::testing::ValuesIn(SupportedIsas()), IsaName);

TEST_P(CrossEntropyTest, UniformLogitsGiveLogOfVocabulary) {
  std::vector<float> lse;
  const std::vector<float> logits(kRows * kVocab, 3.0f);
  EXPECT_NEAR(Loss(GetParam(), logits, &lse), kRows * std::log(77.0), 1e-5);
  EXPECT_NEAR(lse[0], 3.0 + std::log(77.0), 1e-5);
}

TEST_P(CrossEntropyTest, GradientMatchesFiniteDifferences) {
  auto logits = RandomValues<double>(kRows * kVocab, "logits");
  const auto gradient = Gradient(GetParam(), logits, 0.25);
  ExpectGradient("dlogits", logits, gradient, [&] {
    std::vector<double> lse;
    return 0.25 * Loss(GetParam(), logits, &lse);
  });
}

TEST_P(CrossEntropyTest, FloatAgreesWithDouble) {
  const auto logits = RandomValues<float>(kRows * kVocab, "logits");
  const auto exact = RandomValues<double>(kRows * kVocab, "logits");
  std::vector<float> lse;
  std::vector<double> exact_lse;
  const double loss = Loss(Isa::kBaseline, exact, &exact_lse);
  EXPECT_NEAR(Loss(GetParam(), logits, &lse), loss, 1e-6 * loss);
  ExpectClose("lse", lse, exact_lse, 1e-6);
  ExpectClose("dlogits", Gradient(GetParam(), logits, 1.0f),
              Gradient(Isa::kBaseline, exact, 1.0), 1e-6);
}

TEST_P(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  std::vector<float> logits(kRows * kVocab, -3e4f);
  for (int64_t i = 0; i < kRows; ++i) logits[i * kVocab + kTargets[i]] = 3e4f;
  std::vector<float> lse;
  EXPECT_NEAR(Loss(GetParam(), logits, &lse), 0.0, 1e-6);
}

TEST_P(CrossEntropyTest, NotANumberReachesTheLoss) {
  std::vector<float> lse;
  for (const int64_t at : {int64_t{0}, int64_t{40}, kVocab - 1}) {
    std::vector<float> logits(kRows * kVocab, 0.0f);
    logits[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(Loss(GetParam(), logits, &lse))) << at;
  }
}

}  // namespace
}  // namespace gimbal::compute
