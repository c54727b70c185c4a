#include "worker/optim/qr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/base/random.h"
#include "worker/compute/gemm.h"

namespace gimbal::worker {
namespace {

template <typename T>
std::vector<T> Normal(int64_t n) {
  std::vector<T> x(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<T>(base::RandomNormal(1, 1, i));
  }
  return x;
}

// a b^T for square matrices.
template <typename T>
std::vector<T> Dots(int64_t n, const std::vector<T>& a,
                    const std::vector<T>& b) {
  std::vector<T> dots(n * n);
  compute::Gemm<T>(compute::Trans::kNo, compute::Trans::kYes, n, n, n, 1,
                   a.data(), n, b.data(), n, 0, dots.data(), n);
  return dots;
}

template <typename T>
class QrTest : public ::testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 4 ? 2e-4 : 2e-12;

  void ExpectOrthonormal(int64_t n, const std::vector<T>& q) {
    const std::vector<T> dots = Dots(n, q, q);
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        worst = std::max(worst, std::abs(double{dots[i * n + j]} - (i == j)));
      }
    }
    EXPECT_LT(worst, kTolerance / 10) << "n = " << n;
  }

  static void Orthonormalize(int64_t n, int64_t count, std::vector<T>* q) {
    std::vector<T> scratch(QrScratchSize<T>(n));
    OrthonormalizeRows<T>(n, count, q->data(), scratch);
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(QrTest, Types);

// One block, several with a last one that is smaller, and blocks of 128.
TYPED_TEST(QrTest, RowsStayInTheSpanOfTheOnesBefore) {
  for (const int64_t n : {1, 2, 7, 64, 150, 1030}) {
    const auto a = Normal<TypeParam>(n * n);
    auto q = a;
    this->Orthonormalize(n, n, &q);
    this->ExpectOrthonormal(n, q);
    const auto dots = Dots(n, a, q);
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        worst = std::max(worst, std::abs(double{dots[i * n + j]}));
      }
    }
    EXPECT_LT(worst, this->kTolerance) << "n = " << n;
  }
}

TYPED_TEST(QrTest, CompletesFewerRows) {
  for (const int64_t count : {1, 64, 100, 149}) {
    constexpr int64_t kN = 150;
    const auto a = Normal<TypeParam>(kN * kN);
    auto q = a;
    this->Orthonormalize(kN, count, &q);
    this->ExpectOrthonormal(kN, q);
    auto whole = a;
    this->Orthonormalize(kN, kN, &whole);
    for (int64_t i = 0; i < count * kN; ++i) {
      ASSERT_NEAR(q[i], whole[i], this->kTolerance);
    }
  }
}

TYPED_TEST(QrTest, CompletesEveryRank) {
  constexpr int64_t kN = 130;
  for (const int64_t rank : {0, 1, 63, 64, 100}) {
    auto q = Normal<TypeParam>(kN * kN);
    std::fill(q.begin() + rank * kN, q.end(), TypeParam{0});
    this->Orthonormalize(kN, kN, &q);
    this->ExpectOrthonormal(kN, q);
  }
}

}  // namespace
}  // namespace gimbal::worker
