#include "worker/compute/layer_norm.h"

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::Dot;
using gimbal::testing::ExpectClose;
using gimbal::testing::ExpectGradient;
using gimbal::testing::RandomValues;

template <typename T>
struct Problem {
  int64_t rows, cols;
  std::vector<T> x, w, b, r;  // r: gradient of y
  std::vector<T> y, mean, rstd;
  std::vector<T> remade, dw, db, dx;

  Problem(int64_t n, int64_t c)
      : rows(n),
        cols(c),
        x(RandomValues<T>(n * c, "x")),
        w(RandomValues<T>(c, "w")),
        b(RandomValues<T>(c, "b")),
        r(RandomValues<T>(n * c, "r")),
        y(n * c),
        mean(n),
        rstd(n),
        remade(r),
        dw(c),
        db(c),
        dx(n * c) {}

  void Forward(Isa isa) {
    KernelsFor<LayerNorm<T>>(isa).forward(rows, cols, T(1e-5), x.data(),
                                          w.data(), b.data(), y.data(),
                                          mean.data(), rstd.data());
  }
  void Backward(Isa isa) {
    KernelsFor<LayerNorm<T>>(isa).backward(
        rows, cols, x.data(), w.data(), b.data(), mean.data(), rstd.data(),
        remade.data(), dw.data(), db.data(), dx.data());
  }
};

class LayerNormTest : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isa, LayerNormTest,
                         ::testing::ValuesIn(SupportedIsas()), IsaName);

TEST_P(LayerNormTest, NormalisesRows) {
  Problem<double> p(3, 41);
  std::ranges::fill(p.w, 1.0);
  std::ranges::fill(p.b, 0.0);
  p.Forward(GetParam());
  for (int64_t i = 0; i < p.rows; ++i) {
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < p.cols; ++j) {
      sum += p.y[i * p.cols + j];
      squares += p.y[i * p.cols + j] * p.y[i * p.cols + j];
    }
    EXPECT_NEAR(sum, 0, 1e-12);
    EXPECT_NEAR(squares / p.cols, 1, 1e-4);
  }
}

TEST_P(LayerNormTest, GradientMatchesFiniteDifferences) {
  Problem<double> p(3, 41);
  p.Forward(GetParam());
  p.Backward(GetParam());
  EXPECT_EQ(p.remade, p.y);
  const auto loss = [&] {
    p.Forward(GetParam());
    return Dot(p.r, p.y);
  };
  ExpectGradient("dx", p.x, p.dx, loss);
  ExpectGradient("dw", p.w, p.dw, loss);
  ExpectGradient("db", p.b, p.db, loss);
}

TEST_P(LayerNormTest, GradientsAreAddedTo) {
  Problem<double> once(2, 7);
  once.Forward(GetParam());
  Problem<double> twice = once;
  once.Backward(GetParam());
  twice.Backward(GetParam());
  twice.remade = twice.r;
  twice.Backward(GetParam());
  for (int64_t j = 0; j < 7; ++j) {
    EXPECT_NEAR(twice.dw[j], 2 * once.dw[j], 1e-12);
    EXPECT_NEAR(twice.db[j], 2 * once.db[j], 1e-12);
    EXPECT_NEAR(twice.dx[j], 2 * once.dx[j], 1e-12);
  }
}

TEST_P(LayerNormTest, FloatAgreesWithDouble) {
  Problem<float> single(65, 387);
  Problem<double> reference(65, 387);
  single.Forward(GetParam());
  single.Backward(GetParam());
  reference.Forward(Isa::kBaseline);
  reference.Backward(Isa::kBaseline);
  ExpectClose("y", single.y, reference.y, 1e-6);
  ExpectClose("remade", single.remade, reference.y, 1e-6);
  ExpectClose("dx", single.dx, reference.dx, 1e-6);
  ExpectClose("dw", single.dw, reference.dw, 1e-6);
  ExpectClose("db", single.db, reference.db, 1e-6);
}

}  // namespace
}  // namespace gimbal::compute
