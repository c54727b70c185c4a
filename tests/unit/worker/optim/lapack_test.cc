#include "worker/optim/lapack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"

namespace gimbal::worker {
namespace {

template <typename T>
std::vector<T> Normal(int64_t n, uint64_t stream) {
  std::vector<T> x(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<T>(base::RandomNormal(1, stream, i));
  }
  return x;
}

template <typename T>
double RowDot(const std::vector<T>& a, int64_t i, int64_t j, int64_t n) {
  double dot = 0;
  for (int64_t k = 0; k < n; ++k) dot += double{a[i * n + k]} * a[j * n + k];
  return dot;
}

template <typename T>
void ExpectOrthonormalRows(const std::vector<T>& a, int64_t n,
                           double tolerance) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      ASSERT_NEAR(RowDot(a, i, j, n), i == j, tolerance) << i << ", " << j;
    }
  }
}

template <typename T>
class LapackTest : public ::testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LapackTest, Types);

// NaN in the upper triangle shows that it is neither read nor written.
TYPED_TEST(LapackTest, SyrkUpdatesTheLowerTriangleAlone) {
  using T = TypeParam;
  const int64_t n = 5, k = 3;
  const auto a = Normal<T>(n * k, 1);
  for (bool rows : {true, false}) {
    std::vector<T> c(n * n, T{2});
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        c[i * n + j] = std::numeric_limits<T>::quiet_NaN();
      }
    }
    if (rows) {
      SyrkRows<T>(n, k, 0.5, a.data(), 0.25, c.data());
    } else {
      SyrkColumns<T>(n, k, 0.5, a.data(), 0.25, c.data());
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if (j > i) {
          EXPECT_TRUE(std::isnan(c[i * n + j]));
          continue;
        }
        double dot = 0;
        for (int64_t l = 0; l < k; ++l) {
          dot += rows ? double{a[i * k + l]} * a[j * k + l]
                      : double{a[l * n + i]} * a[l * n + j];
        }
        EXPECT_NEAR(c[i * n + j], 0.5 * dot + 0.5, this->kTolerance);
      }
    }
  }
}

TYPED_TEST(LapackTest, SymmRightReadsTheLowerTriangleAlone) {
  using T = TypeParam;
  const int64_t n = 6;
  const auto x = Normal<T>(n * n, 1), s = Normal<T>(n * n, 2);
  auto lower = s;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) {
      lower[i * n + j] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  std::vector<T> y(n * n, std::numeric_limits<T>::quiet_NaN());
  SymmRight(n, x.data(), lower.data(), y.data());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        sum += double{x[i * n + k]} * s[std::max(j, k) * n + std::min(j, k)];
      }
      EXPECT_NEAR(y[i * n + j], sum, this->kTolerance);
    }
  }
}

TYPED_TEST(LapackTest, EigenvectorRowsDiagonalize) {
  using T = TypeParam;
  for (int64_t n : {1, 2, 7, 40}) {
    const auto a = Normal<T>(n * n, 1);
    std::vector<T> s(n * n), product(n * n);
    SyrkRows<T>(n, n, 1, a.data(), 0, s.data());
    auto vectors = s;
    std::vector<T> scratch(EigenScratchSize<T>(n));
    std::vector<int> ints(EigenIntScratchSize(n));
    ASSERT_TRUE((EigenvectorRows<T>(n, vectors.data(), scratch, ints)));
    ExpectOrthonormalRows(vectors, n, this->kTolerance);
    SymmRight(n, vectors.data(), s.data(), product.data());
    double last = -1;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double e = 0;
        for (int64_t k = 0; k < n; ++k) {
          e += double{product[i * n + k]} * vectors[j * n + k];
        }
        if (i == j) {
          EXPECT_GE(e, last);
          last = e;
        } else {
          EXPECT_NEAR(e, 0, 100 * this->kTolerance);
        }
      }
    }
  }
}

}  // namespace
}  // namespace gimbal::worker
