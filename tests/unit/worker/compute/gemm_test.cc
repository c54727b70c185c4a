#include "worker/compute/gemm.h"

#include "absl/strings/str_cat.h"
#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"
#include "worker/compute/isa.h"
#include "worker/compute/small_gemm.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::RandomValues;

struct Shape {
  int64_t m, n, k;
};

// Both sides of IsSmallGemm, with every kind of leftover rows and columns.
constexpr Shape kShapes[] = {
    {5, 7, 3}, {1, 8, 1}, {6, 16, 4}, {9, 24, 5}, {13, 40, 17}};

// Leading dimensions are larger than the matrices, and what lies between rows
// stays as it is.
template <typename T>
void Check(Shape shape, Trans trans_a, Trans trans_b, T alpha, T beta,
           double tolerance) {
  SCOPED_TRACE(absl::StrCat(shape.m, " x ", shape.n, " x ", shape.k));
  const auto [kM, kN, kK] = shape;
  constexpr int64_t kLd = 43;
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
  for (const Shape shape : kShapes) {
    for (const Trans trans_a : {Trans::kNo, Trans::kYes}) {
      for (const Trans trans_b : {Trans::kNo, Trans::kYes}) {
        Check<float>(shape, trans_a, trans_b, 0.5f, 2.0f, 1e-5);
        Check<double>(shape, trans_a, trans_b, 0.5, 2.0, 1e-13);
        Check<double>(shape, trans_a, trans_b, 1.0, 0.0, 1e-13);
      }
    }
  }
}

TEST(SmallGemmTest, InstructionSetsAgree) {
  constexpr int64_t kM = 13, kN = 40, kK = 17;
  const auto a = RandomValues<float>(kM * kK, "a");
  const auto b = RandomValues<float>(kK * kN, "b");
  std::vector<float> want;
  for (const Isa isa : SupportedIsas()) {
    std::vector<float> got(kM * kN);
    KernelsFor<SmallGemmKernels<float>>(isa).gemm(false, true, kM, kN, kK, 1,
                                                  a.data(), kK, b.data(), kK, 0,
                                                  got.data(), kN);
    if (want.empty()) want = got;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
  }
}

TEST(SmallGemmTest, BitsDoNotDependOnTheNumberOfRows) {
  constexpr int64_t kM = 13, kN = 16, kK = 33;
  ASSERT_TRUE(IsSmallGemm(kM, kN, kK));
  const auto a = RandomValues<float>(kM * kK, "a");
  const auto b = RandomValues<float>(kK * kN, "b");
  std::vector<float> whole(kM * kN), rows(kM * kN);
  Gemm<float>(Trans::kNo, Trans::kNo, kM, kN, kK, 1, a.data(), kK, b.data(), kN,
              0, whole.data(), kN);
  for (int64_t i = 0; i < kM; ++i) {
    Gemm<float>(Trans::kNo, Trans::kNo, 1, kN, kK, 1, a.data() + i * kK, kK,
                b.data(), kN, 0, rows.data() + i * kN, kN);
  }
  EXPECT_EQ(whole, rows);
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
