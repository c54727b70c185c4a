#include "worker/optim/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/base/random.h"
#include "tests/unit/worker/compute/isa_param.h"
#include "worker/compute/isa.h"

namespace gimbal::worker {
namespace {

using compute::Isa;
using compute::SupportedIsas;

// Lengths around the vector widths, tails included.
const std::vector<int> kLengths = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 1000};

template <typename T>
std::vector<T> Normal(int n, uint64_t stream) {
  std::vector<T> x(n);
  for (int i = 0; i < n; ++i) {
    x[i] = static_cast<T>(base::RandomNormal(1, stream, i));
  }
  return x;
}

template <typename T>
std::vector<T> Squares(std::vector<T> x) {
  for (T& value : x) value *= value;
  return x;
}

template <typename T>
class KernelsTest : public ::testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsTest, Types);

TYPED_TEST(KernelsTest, AdamWFollowsItsFormulaInAndOutOfPlace) {
  using T = TypeParam;
  const AdamWRule rule{.moments = {0.9, 0.99, 1e-3},
                       .grad_scale = 0.5,
                       .keep = 0.98,
                       .moment_step = 0.1,
                       .root_correction = 0.3};
  for (Isa isa : SupportedIsas()) {
    const auto& kernels = compute::KernelsFor<OptimKernels<T>>(isa);
    for (int n : kLengths) {
      const auto w = Normal<T>(n, 1), g = Normal<T>(n, 2);
      const auto m0 = Normal<T>(n, 3), v0 = Squares(Normal<T>(n, 4));
      auto m = m0, v = v0, updated = Normal<T>(n, 5);
      kernels.adamw(n, rule, w.data(), g.data(), m.data(), v.data(),
                    updated.data());
      auto m_again = m0, v_again = v0, in_place = w;
      kernels.adamw(n, rule, in_place.data(), g.data(), m_again.data(),
                    v_again.data(), in_place.data());
      EXPECT_EQ(in_place, updated);
      for (int i = 0; i < n; ++i) {
        const double gi = 0.5 * g[i];
        const double mi = 0.9 * m0[i] + 0.1 * gi;
        const double vi = 0.99 * v0[i] + 0.01 * gi * gi;
        EXPECT_NEAR(m[i], mi, this->kTolerance);
        EXPECT_NEAR(v[i], vi, this->kTolerance);
        EXPECT_NEAR(updated[i],
                    0.98 * w[i] - 0.1 * mi / (std::sqrt(vi) / 0.3 + 1e-3),
                    this->kTolerance);
      }
    }
  }
}

TYPED_TEST(KernelsTest, RotatedDirectionFollowsItsFormula) {
  using T = TypeParam;
  for (Isa isa : SupportedIsas()) {
    const auto& kernels = compute::KernelsFor<OptimKernels<T>>(isa);
    for (int n : kLengths) {
      const auto g0 = Normal<T>(n, 2), m0 = Normal<T>(n, 3);
      const auto v0 = Squares(Normal<T>(n, 4));
      auto g = g0, m = m0, v = v0;
      const AdamWRule rule{.moments = {0.9, 0.99, 1e-2}, .moment_step = 1};
      kernels.rotated_direction(n, rule, g.data(), m.data(), v.data());
      for (int i = 0; i < n; ++i) {
        const double mi = 0.9 * m0[i] + 0.1 * g0[i];
        const double vi = 0.99 * v0[i] + 0.01 * g0[i] * g0[i];
        EXPECT_NEAR(m[i], mi, this->kTolerance);
        EXPECT_NEAR(v[i], vi, this->kTolerance);
        const double direction = mi / (std::sqrt(vi) + 1e-2);
        EXPECT_NEAR(g[i], direction,
                    this->kTolerance * (1 + std::abs(direction)));
      }
    }
  }
}

TYPED_TEST(KernelsTest, ApplyFollowsItsFormulaInAndOutOfPlace) {
  using T = TypeParam;
  for (Isa isa : SupportedIsas()) {
    const auto& kernels = compute::KernelsFor<OptimKernels<T>>(isa);
    for (int n : kLengths) {
      const auto w = Normal<T>(n, 1), d = Normal<T>(n, 2);
      std::vector<T> updated(n), in_place = w;
      kernels.apply(n, 0.9, 0.2, w.data(), d.data(), updated.data());
      kernels.apply(n, 0.9, 0.2, in_place.data(), d.data(), in_place.data());
      EXPECT_EQ(in_place, updated);
      for (int i = 0; i < n; ++i) {
        EXPECT_NEAR(updated[i], 0.9 * w[i] - 0.2 * d[i], this->kTolerance);
      }
    }
  }
}

TYPED_TEST(KernelsTest, SquareSumIsExactOnIntegers) {
  using T = TypeParam;
  for (Isa isa : SupportedIsas()) {
    const auto& kernels = compute::KernelsFor<OptimKernels<T>>(isa);
    for (int n : kLengths) {
      std::vector<T> x(n);
      double expected = 0;
      for (int i = 0; i < n; ++i) {
        x[i] = static_cast<T>(i - 4);
        expected += double{x[i]} * double{x[i]};
      }
      EXPECT_EQ(kernels.square_sum(n, x.data()), expected);
    }
  }
}

// A weight version lies wherever its arena was allocated: results must not
// depend on which elements a vector loop happens to take together.
TYPED_TEST(KernelsTest, SameBitsAtEveryAddress) {
  using T = TypeParam;
  const int n = 101;
  const auto w = Normal<T>(n, 1), g = Normal<T>(n, 2), m0 = Normal<T>(n, 3);
  const auto v0 = Squares(Normal<T>(n, 4));
  const AdamWRule rule{.moments = {0.9, 0.999, 1e-8},
                       .grad_scale = 0.7,
                       .keep = 0.99,
                       .moment_step = 0.01,
                       .root_correction = 0.2};
  for (Isa isa : SupportedIsas()) {
    const auto& kernels = compute::KernelsFor<OptimKernels<T>>(isa);
    // Everything the kernels write, with arrays that start `shift` elements off
    // what the allocator gave, each by another amount.
    const auto run = [&](int shift) {
      const auto moved = [&](const std::vector<T>& x, int factor) {
        std::vector<T> result(factor * shift);
        result.insert(result.end(), x.begin(), x.end());
        return result;
      };
      auto w1 = moved(w, 1), g1 = moved(g, 2), m1 = moved(m0, 3);
      auto v1 = moved(v0, 4);
      const auto at = [&](std::vector<T>& x) {
        return x.data() + x.size() - n;
      };
      kernels.adamw(n, rule, at(w1), at(g1), at(m1), at(v1), at(w1));
      kernels.rotated_direction(n, rule, at(g1), at(m1), at(v1));
      kernels.apply(n, 0.99, 0.01, at(w1), at(g1), at(w1));
      std::vector<T> written;
      for (auto* x : {&w1, &g1, &m1, &v1}) {
        written.insert(written.end(), at(*x), at(*x) + n);
      }
      return written;
    };
    const auto expected = run(0);
    for (int shift = 1; shift < 8; ++shift) EXPECT_EQ(run(shift), expected);
  }
}

// Float inputs square exactly in double, so that no set of instructions may
// round differently; and the address must not matter.
TEST(SquareSum, SameBitsOnEveryInstructionSetAndAddress) {
  const auto x = Normal<float>(1001, 1);
  const double expected =
      compute::KernelsFor<OptimKernels<float>>(Isa::kBaseline)
          .square_sum(1001, x.data());
  EXPECT_GT(expected, 0);
  for (Isa isa : SupportedIsas()) {
    const auto& kernels = compute::KernelsFor<OptimKernels<float>>(isa);
    for (int shift = 0; shift < 16; ++shift) {
      std::vector<float> moved(1001 + shift);
      std::copy(x.begin(), x.end(), moved.begin() + shift);
      EXPECT_EQ(kernels.square_sum(1001, moved.data() + shift), expected);
    }
  }
}

}  // namespace
}  // namespace gimbal::worker
