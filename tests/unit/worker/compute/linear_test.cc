#include "worker/compute/linear.h"

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::Dot;
using gimbal::testing::ExpectClose;
using gimbal::testing::ExpectGradient;
using gimbal::testing::RandomValues;

constexpr LinearShape kShape = {.rows = 11, .in = 7, .out = 5};

TEST(LinearTest, BiasAndAddendAreOptional) {
  const auto x = RandomValues<double>(11 * 7, "x");
  const auto w = RandomValues<double>(5 * 7, "w");
  const auto bias = RandomValues<double>(5, "bias");
  const auto addend = RandomValues<double>(11 * 5, "addend");
  for (const bool with_bias : {false, true}) {
    for (const bool with_addend : {false, true}) {
      std::vector<double> y(11 * 5, 99.0);
      LinearForward(kShape, x.data(), w.data(),
                    with_bias ? bias.data() : nullptr,
                    with_addend ? addend.data() : nullptr, y.data());
      for (int64_t i = 0; i < 11; ++i) {
        for (int64_t j = 0; j < 5; ++j) {
          double want =
              (with_bias ? bias[j] : 0) + (with_addend ? addend[i * 5 + j] : 0);
          for (int64_t k = 0; k < 7; ++k) want += x[i * 7 + k] * w[j * 7 + k];
          EXPECT_NEAR(y[i * 5 + j], want, 1e-13);
        }
      }
    }
  }
}

TEST(LinearTest, GradientMatchesFiniteDifferences) {
  auto x = RandomValues<double>(11 * 7, "x");
  auto w = RandomValues<double>(5 * 7, "w");
  auto bias = RandomValues<double>(5, "bias");
  const auto r = RandomValues<double>(11 * 5, "r");
  std::vector<double> y(11 * 5);
  std::vector<double> dx(11 * 7, 99.0);
  std::vector<double> dw(5 * 7), dbias(5);
  LinearBackwardInput(kShape, r.data(), w.data(), dx.data());
  LinearBackwardWeight(kShape, r.data(), x.data(), dw.data(), dbias.data());
  const auto loss = [&] {
    LinearForward<double>(kShape, x.data(), w.data(), bias.data(), nullptr,
                          y.data());
    return Dot(r, y);
  };
  ExpectGradient("dx", x, dx, loss);
  ExpectGradient("dw", w, dw, loss);
  ExpectGradient("dbias", bias, dbias, loss);

  const auto once = dw;
  LinearBackwardWeight<double>(kShape, r.data(), x.data(), dw.data(), nullptr);
  for (size_t i = 0; i < dw.size(); ++i) {
    EXPECT_NEAR(dw[i], 2 * once[i], 1e-12);
  }
}

class BiasKernelsTest : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isa, BiasKernelsTest,
                         ::testing::ValuesIn(SupportedIsas()), IsaName);

TEST_P(BiasKernelsTest, ColumnSumCoversRemainingRows) {
  constexpr int64_t kCols = 35;
  for (const int64_t rows : {1, 7, 8, 9, 24}) {
    const auto x = RandomValues<float>(rows * kCols, "x");
    std::vector<float> sum(kCols, 1.0f);
    KernelsFor<BiasKernels<float>>(GetParam())
        .column_sum(rows, kCols, x.data(), sum.data());
    std::vector<double> want(kCols, 1.0);
    for (int64_t i = 0; i < rows * kCols; ++i) want[i % kCols] += x[i];
    ExpectClose("sum", sum, want, 1e-6);
  }
}

}  // namespace
}  // namespace gimbal::compute
