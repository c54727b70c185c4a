// Products against the CPU's in double precision.
#include "worker/compute/gemm.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/unit/worker/compute/cuda/device_array.h"
#include "worker/compute/cuda/gemm.h"
#include "worker/compute/linear.h"

namespace gimbal::compute::cuda {
namespace {

// op(A), op(B), matrices, and whether C is another matrix than D and rows have
// a bias.
using Case = std::tuple<Trans, Trans, int64_t, bool, bool>;

class GemmTest : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, GemmTest,
    testing::Combine(testing::Values(Trans::kNo, Trans::kYes),
                     testing::Values(Trans::kNo, Trans::kYes),
                     testing::Values(1, 3), testing::Bool(), testing::Bool()));

// Factors of T, the rest of U.
template <typename T, typename U>
void ExpectGemm(const Case& shape) {
  const auto [trans_a, trans_b, batch, other_c, with_bias] = shape;
  constexpr int64_t m = 5, n = 7, k = 3;
  const Floats a = RandomOf<T>(batch * m * k, 1),
               b = RandomOf<T>(batch * k * n, 2),
               c = RandomOf<U>(batch * m * n, 3), bias = RandomOf<U>(n, 4);
  GemmCall call{.trans_a = trans_a,
                .trans_b = trans_b,
                .m = m,
                .n = n,
                .k = k,
                .alpha = 0.5f,
                .beta = 2,
                .lda = trans_a == Trans::kYes ? m : k,
                .ldb = trans_b == Trans::kYes ? k : n,
                .ldd = n,
                .batch = batch,
                .stride_a = m * k,
                .stride_b = k * n,
                .stride_d = m * n};
  Gemm gemm;
  const Floats got = UnderAllSeeds(
      [&, other = other_c, biased = with_bias](const Stream& stream) {
        const DeviceArray<T> dev_a(a), dev_b(b);
        const DeviceArray<U> dev_c(c), d(c), dev_bias(bias);
        call.a = dev_a.data();
        call.b = dev_b.data();
        call.c = other ? dev_c.data() : d.data();
        call.d = d.data();
        call.bias = biased ? Source(dev_bias.data()) : Source();
        gemm(stream.get(), call);
        return d.Values(stream);
      });
  const Doubles ad = ToDouble(a), bd = ToDouble(b);
  Doubles expected = ToDouble(c);
  for (int64_t i = 0; i < batch; ++i) {
    compute::Gemm<double>(trans_a, trans_b, m, n, k, 0.5, &ad[i * m * k],
                          call.lda, &bd[i * k * n], call.ldb, 2,
                          &expected[i * m * n], n);
  }
  for (size_t i = 0; with_bias && i < expected.size(); ++i) {
    expected[i] += bias[i % n];
  }
  ExpectClose<U>(got, expected, 2e-6, "d");
}

TEST_P(GemmTest, MatchesTheCpu) { ExpectGemm<float, float>(GetParam()); }

TEST_P(GemmTest, MatchesTheCpuInBf16) { ExpectGemm<Bf16, Bf16>(GetParam()); }

TEST_P(GemmTest, AddsUpBf16InFp32) { ExpectGemm<Bf16, float>(GetParam()); }

// Devices may round to TF32 or cut off; either way the numbers are not those
// of fp32, and close to them.
TEST(GemmTest, RoundsFactorsToTf32WhereItIsAsked) {
  constexpr int64_t m = 16, n = 24, k = 40;
  const Floats a = RandomOf<float>(m * k, 1), b = RandomOf<float>(k * n, 2);
  const auto product = [&](bool tf32) {
    Gemm gemm(tf32);
    return UnderAllSeeds([&](const Stream& stream) {
      const DeviceArray<float> dev_a(a), dev_b(b), d(Floats(m * n));
      GemmCall call{.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldd = n};
      call.a = dev_a.data();
      call.b = dev_b.data();
      call.d = d.data();
      gemm(stream.get(), call);
      return d.Values(stream);
    });
  };
  const Floats exact = product(false), rounded = product(true);
  double most = 0, largest = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    most = std::max(most, std::abs(double{rounded[i]} - exact[i]));
    largest = std::max(largest, std::abs(double{exact[i]}));
  }
  EXPECT_LT(most, 2e-3 * largest);
  EXPECT_GT(most, 1e-5 * largest);
}

TEST(GemmTest, RefusesTypesThatDoNotFit) {
  const Stream stream;
  const DeviceArray<float> a(4), d(4);
  const DeviceArray<Bf16> b(4);
  GemmCall call{.m = 2, .n = 2, .k = 2, .lda = 2, .ldb = 2, .ldd = 2};
  call.a = a.data();
  call.b = b.data();
  call.d = d.data();
  Gemm gemm;
  EXPECT_THROW(gemm(stream.get(), call), CudaError);
}

// The gradient of the weights is fp32, whatever T is.
template <typename T>
void ExpectLinear() {
  constexpr LinearShape kShape{.rows = 6, .in = 5, .out = 9};
  const Floats x = RandomOf<T>(30, 1), w = RandomOf<T>(45, 2),
               bias = RandomOf<T>(9, 3), addend = RandomOf<T>(54, 4),
               dw = RandomFloats(45, 5);
  Gemm gemm;
  const Stream stream;
  const DeviceArray<T> dev_x(x), dev_w(w), dev_bias(bias), dev_addend(addend),
      y(54), dx(30);
  const DeviceArray<float> dev_dw(dw);
  LinearForward(stream.get(), gemm, kShape, dev_x.data(), dev_w.data(),
                dev_bias.data(), dev_addend.data(), y.data());
  LinearBackwardInput(stream.get(), gemm, kShape, 0.5f, dev_addend.data(),
                      dev_w.data(), dx.data());
  LinearBackwardWeight(stream.get(), gemm, kShape, 1, dev_addend.data(),
                       dev_x.data(), dev_dw.data());
  const Doubles xd = ToDouble(x), wd = ToDouble(w), bd = ToDouble(bias),
                ad = ToDouble(addend);
  Doubles expected_y(54), expected_dx(30), expected_dw = ToDouble(dw);
  compute::LinearForward<double>(kShape, xd.data(), wd.data(), bd.data(),
                                 ad.data(), expected_y.data());
  compute::LinearBackwardInput<double>(kShape, ad.data(), wd.data(),
                                       expected_dx.data());
  for (double& d : expected_dx) d *= 0.5;
  compute::LinearBackwardWeight<double>(kShape, ad.data(), xd.data(),
                                        expected_dw.data(), nullptr);
  ExpectClose<T>(y.Values(stream), expected_y, 2e-6, "y");
  ExpectClose<T>(dx.Values(stream), expected_dx, 2e-6, "dx");
  ExpectClose(dev_dw.Values(stream), expected_dw, 2e-6, "dw");
}

TEST(LinearTest, MatchesTheCpu) { ExpectLinear<float>(); }

TEST(LinearTest, MatchesTheCpuInBf16) { ExpectLinear<Bf16>(); }

}  // namespace
}  // namespace gimbal::compute::cuda
