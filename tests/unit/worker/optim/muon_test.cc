#include "worker/optim/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "tests/unit/worker/optim/optim_test_util.h"
#include "tests/unit/worker/optim/rotation_reference.h"

namespace gimbal::worker {
namespace {

PlainMatrix Random(int64_t rows, int64_t cols, uint64_t seed) {
  PlainMatrix x(rows, cols);
  for (size_t i = 0; i < x.data.size(); ++i) {
    x.data[i] = base::RandomNormal(seed, 1, i);
  }
  return x;
}

// The iteration as its authors state it, for rows <= cols.
PlainMatrix PlainNewtonSchulz(PlainMatrix x, int steps) {
  if (x.rows > x.cols) {
    return Transposed(PlainNewtonSchulz(Transposed(x), steps));
  }
  double square = 0;
  for (const double v : x.data) square += v * v;
  for (double& v : x.data) v /= std::sqrt(square);
  for (int step = 0; step < steps; ++step) {
    const PlainMatrix a = Product(x, Transposed(x));
    PlainMatrix b = Product(a, a);
    for (size_t i = 0; i < b.data.size(); ++i) {
      b.data[i] = -4.7750 * a.data[i] + 2.0315 * b.data[i];
    }
    const PlainMatrix bx = Product(b, x);
    for (size_t i = 0; i < x.data.size(); ++i) {
      x.data[i] = 3.4445 * x.data[i] + bx.data[i];
    }
  }
  return x;
}

template <typename T>
std::vector<T> Ours(const PlainMatrix& x, int steps) {
  std::vector<T> y(x.data.begin(), x.data.end());
  std::vector<T> scratch(NewtonSchulzScratch(x.rows, x.cols));
  NewtonSchulz<T>(x.rows, x.cols, steps, y.data(), scratch);
  return y;
}

TEST(NewtonSchulz, EqualsThePlainIteration) {
  for (const auto& [rows, cols] :
       {std::pair{8, 8}, {5, 12}, {12, 5}, {1, 4}, {4, 1}, {32, 128}}) {
    const PlainMatrix x = Random(rows, cols, 3);
    const PlainMatrix expected = PlainNewtonSchulz(x, 5);
    const auto in_double = Ours<double>(x, 5);
    const auto in_float = Ours<float>(x, 5);
    for (size_t i = 0; i < x.data.size(); ++i) {
      ASSERT_NEAR(in_double[i], expected.data[i], 1e-11);
      ASSERT_NEAR(in_float[i], expected.data[i], 2e-5);
    }
  }
}

// Singular values near 1: the eigenvalues of O O^T lie in [0.68^2, 1.22^2], the
// band that these coefficients are made for.
TEST(NewtonSchulz, MakesMatricesNearlyOrthogonal) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const PlainMatrix x = Random(16, 48, seed);
    PlainMatrix o(16, 48);
    const auto ours = Ours<double>(x, 5);
    o.data.assign(ours.begin(), ours.end());
    const PlainMatrix gram = Product(o, Transposed(o));
    const PlainMatrix q = Eigenvectors(gram);
    const PlainMatrix rotated = Product(Product(Transposed(q), gram), q);
    for (int64_t i = 0; i < 16; ++i) {
      EXPECT_GT(rotated(i, i), 0.68 * 0.68);
      EXPECT_LT(rotated(i, i), 1.22 * 1.22);
    }
  }
}

TEST(NewtonSchulz, ZeroAndBadInputBecomeZero) {
  PlainMatrix x(3, 4);
  for (const float v : Ours<float>(x, 5)) EXPECT_EQ(v, 0);
  x.data[5] = NAN;
  for (const float v : Ours<float>(x, 5)) EXPECT_EQ(v, 0);
}

// Momentum, look-ahead, scale and decoupled decay around the iteration.
TEST(Muon, FollowsItsFormula) {
  const ParameterTable table = SmallTable(8, 12);
  for (const bool nesterov : {false, true}) {
    const OptimizerSpec spec{.kind = OptimizerKind::kMuon,
                             .nesterov = nesterov,
                             .weight_decay = 0.1};
    Optimizer<double> optimizer(spec, table);
    auto weights = RandomWeights<double>(table);
    const Param& p = table.at("h.0.mlp.fc.weight");  // [12, 8]
    PlainMatrix m(p.rows, p.cols);
    for (int t = 1; t <= 4; ++t) {
      const auto before = weights;
      const auto grads = RandomGradient<double>(table, t);
      optimizer.Step({.update = t, .lr = 0.02, .scale = 0.5}, weights.data(),
                     grads.data(), weights.data());
      PlainMatrix x(p.rows, p.cols);
      for (int64_t i = 0; i < p.size(); ++i) {
        const double g = 0.5 * grads[p.offset + i];
        m.data[i] = 0.95 * m.data[i] + g;
        x.data[i] = nesterov ? g + 0.95 * m.data[i] : m.data[i];
      }
      const PlainMatrix o = PlainNewtonSchulz(x, 5);
      for (int64_t i = 0; i < p.size(); ++i) {
        const double expected = before[p.offset + i] * (1 - 0.02 * 0.1) -
                                0.02 * 0.2 * std::sqrt(12.0) * o.data[i];
        ASSERT_NEAR(weights[p.offset + i], expected, 1e-11);
      }
    }
  }
}

}  // namespace
}  // namespace gimbal::worker
