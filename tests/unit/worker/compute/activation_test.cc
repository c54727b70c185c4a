#include "worker/compute/activation.h"

#include <limits>

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::Dot;
using gimbal::testing::ExpectClose;
using gimbal::testing::ExpectGradient;
using gimbal::testing::RandomValues;

template <typename T>
std::vector<ActivationFunction<T>> Functions(Isa isa) {
  const auto& all = KernelsFor<Activations<T>>(isa);
  return {all.gelu_tanh, all.gelu_erf, all.relu};
}

double Reference(size_t function, double x) {
  switch (function) {
    case 0:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case 1:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    default:
      return x > 0 ? x : 0;
  }
}

std::vector<float> Grid() {
  std::vector<float> x;
  for (int i = -1200; i <= 1200; ++i) x.push_back(0.01f * i);
  return x;
}

class ActivationTest : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isa, ActivationTest,
                         ::testing::ValuesIn(SupportedIsas()), IsaName);

TEST_P(ActivationTest, DoubleIsTheDefinition) {
  const auto grid = Grid();
  const std::vector<double> x(grid.begin(), grid.end());
  std::vector<double> y(x.size());
  const auto functions = Functions<double>(GetParam());
  for (size_t f = 0; f < functions.size(); ++f) {
    functions[f].forward(static_cast<int64_t>(x.size()), x.data(), y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_NEAR(y[i], Reference(f, x[i]), 1e-14 + 1e-14 * std::abs(x[i]))
          << "function " << f << " at " << x[i];
    }
  }
}

TEST_P(ActivationTest, GradientMatchesFiniteDifferences) {
  const int64_t n = 67;
  for (const auto& function : Functions<double>(GetParam())) {
    auto x = RandomValues<double>(n, "x");
    const auto r = RandomValues<double>(n, "r");
    std::vector<double> y(n);
    auto remade = x;
    auto dx = r;
    function.backward(n, remade.data(), dx.data());
    const auto loss = [&] {
      function.forward(n, x.data(), y.data());
      return Dot(r, y);
    };
    loss();
    ExpectClose("y remade", remade, y, 1e-15);
    ExpectGradient("dx", x, dx, loss);
  }
}

TEST_P(ActivationTest, FloatAgreesWithDouble) {
  const auto x = Grid();
  const auto n = static_cast<int64_t>(x.size());
  const std::vector<double> exact_x(x.begin(), x.end());
  for (size_t f = 0; f < 3; ++f) {
    std::vector<float> y(x.size());
    auto remade = x;
    std::vector<float> slope(x.size(), 1.0f);
    std::vector<double> exact_y = exact_x;
    std::vector<double> exact_slope(x.size(), 1.0);
    Functions<float>(GetParam())[f].forward(n, x.data(), y.data());
    Functions<float>(GetParam())[f].backward(n, remade.data(), slope.data());
    Functions<double>(Isa::kBaseline)[f].backward(n, exact_y.data(),
                                                  exact_slope.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double allowed = 4e-7 * std::max(1.0, std::abs(exact_x[i]));
      ASSERT_NEAR(y[i], exact_y[i], allowed) << f << " at " << x[i];
      ASSERT_NEAR(remade[i], exact_y[i], allowed) << f << " at " << x[i];
      ASSERT_NEAR(slope[i], exact_slope[i], 1e-6) << f << " at " << x[i];
    }
  }
}

TEST_P(ActivationTest, ExtremeInputs) {
  const float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const auto& function : Functions<float>(GetParam())) {
    // 19 elements: the vector loop and its remainder.
    std::vector<float> x(19, 1e4f);
    x[3] = x[18] = -1e4f;
    std::vector<float> y(x.size());
    function.forward(19, x.data(), y.data());
    EXPECT_EQ(y[0], 1e4f);
    EXPECT_NEAR(y[3], 0, 1e-20);
    EXPECT_NEAR(y[18], 0, 1e-20);
    std::vector<float> slope(x.size(), 1.0f);
    function.backward(19, x.data(), slope.data());
    EXPECT_EQ(slope[0], 1.0f);
    EXPECT_NEAR(slope[3], 0, 1e-20);
  }
  for (size_t f : {0u, 1u}) {
    std::vector<float> x(9, kNaN), y(9);
    Functions<float>(GetParam())[f].forward(9, x.data(), y.data());
    for (const float v : y) EXPECT_TRUE(std::isnan(v));
  }
}

}  // namespace
}  // namespace gimbal::compute
