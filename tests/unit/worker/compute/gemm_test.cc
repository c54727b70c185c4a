#include "worker/compute/gemm.h"

#include "tests/support/gradcheck.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::RandomValues;

// Leading dimensions are larger than the matrices, and what lies between rows
// stays as it is.
template <typename T>
void Check(Trans trans_a, Trans trans_b, T alpha, T beta, double tolerance) {
  constexpr int64_t kM = 5, kN = 7, kK = 3, kLd = 11;
  const auto a = RandomValues<T>(kLd * kLd, "a");
  const auto b = RandomValues<T>(kLd * kLd, "b");
  const auto c = RandomValues<T>(kLd * kLd, "c");
  auto got = c;
  Gemm(trans_a, trans_b, kM, kN, kK, alpha, a.data(), kLd, b.data(), kLd, beta,
       got.data(), kLd);
  for (int64_t i = 0; i < kLd; ++i) {
    for (int64_t j = 0; j < kLd; ++j) {
      double want = c[i * kLd + j];
      if (i < kM && j < kN) {
        want *= beta;
        for (int64_t k = 0; k < kK; ++k) {
          want += double{alpha} *
                  a[trans_a == Trans::kYes ? k * kLd + i : i * kLd + k] *
                  b[trans_b == Trans::kYes ? j * kLd + k : k * kLd + j];
        }
      }
      EXPECT_NEAR(got[i * kLd + j], want, tolerance) << i << ", " << j;
    }
  }
}

TEST(GemmTest, EveryTranspositionAndPrecision) {
  for (const Trans trans_a : {Trans::kNo, Trans::kYes}) {
    for (const Trans trans_b : {Trans::kNo, Trans::kYes}) {
      Check<float>(trans_a, trans_b, 0.5f, 2.0f, 1e-5);
      Check<double>(trans_a, trans_b, 0.5, 2.0, 1e-13);
      Check<double>(trans_a, trans_b, 1.0, 0.0, 1e-13);
    }
  }
}

TEST(GemmTest, BetaZeroOverwritesNotANumber) {
  const std::vector<float> a = {2}, b = {3};
  std::vector<float> c = {std::nanf("")};
  Gemm<float>(Trans::kNo, Trans::kNo, 1, 1, 1, 1, a.data(), 1, b.data(), 1, 0,
              c.data(), 1);
  EXPECT_EQ(c[0], 6.0f);
}

}  // namespace
}  // namespace gimbal::compute
