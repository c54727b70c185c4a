// Elementwise ops and reductions, against the CPU's in double precision.
#include <bit>

#include "tests/unit/worker/compute/cuda/device_array.h"
#include "worker/compute/activation.h"
#include "worker/compute/cuda/activation.h"
#include "worker/compute/cuda/convert.h"
#include "worker/compute/cuda/reduce.h"
#include "worker/compute/cuda/update.h"
#include "worker/compute/isa.h"

namespace gimbal::compute::cuda {
namespace {

using worker::Activation;
using worker::AdamWRule;
using worker::OptimKernels;

constexpr int64_t kSize = 1031;  // neither packs nor blocks come out even

class ActivationTest : public testing::TestWithParam<Activation> {};
INSTANTIATE_TEST_SUITE_P(All, ActivationTest,
                         testing::Values(Activation::kGeluTanh,
                                         Activation::kGeluErf,
                                         Activation::kRelu));

template <typename T>
void ExpectActivation(Activation activation) {
  Floats x = RandomOf<T>(kSize, 1, 3);
  const Floats dy = RandomOf<T>(kSize, 2);
  x[0] = 20;
  x[1] = -20;
  x[2] = 0;
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<T> in(x), y(kSize), d(dy);
    ActivationForward(stream.get(), activation, kSize, in.data(), y.data());
    ActivationBackward(stream.get(), activation, kSize, in.data(), d.data());
    return Joined({y.Values(stream), in.Values(stream), d.Values(stream)});
  });
  const auto& cpu = Kernels<Activations<double>>();
  const ActivationFunction<double>& function =
      activation == Activation::kGeluTanh  ? cpu.gelu_tanh
      : activation == Activation::kGeluErf ? cpu.gelu_erf
                                           : cpu.relu;
  Doubles y = ToDouble(x), d = ToDouble(dy);
  function.backward(kSize, y.data(), d.data());
  Doubles expected = y;
  expected.insert(expected.end(), y.begin(), y.end());
  expected.insert(expected.end(), d.begin(), d.end());
  ExpectClose<T>(got, expected, 1e-6, "y, y again, dx");
}

TEST_P(ActivationTest, MatchesTheCpu) { ExpectActivation<float>(GetParam()); }

TEST_P(ActivationTest, MatchesTheCpuInBf16) {
  ExpectActivation<Bf16>(GetParam());
}

// `from`: where the arrays begin; 1 leaves no pack aligned.
class ConvertTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Alignment, ConvertTest, testing::Values(0, 1));

// The halfway cases go to even; what is no number stays none.
TEST_P(ConvertTest, RoundsOnceAndComesBackExactly) {
  const int from = GetParam();
  const int64_t n = kSize - from;
  Floats x = RandomFloats(kSize, 1);
  const Floats special = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -0.0f,    3.4e38f,
                          INFINITY,    -INFINITY,       0x1p-149f};
  std::copy(special.begin(), special.end(), x.begin() + from);
  x.back() = NAN;
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<float> dev_x(x), back(x);
    const DeviceArray<Bf16> y(kSize);
    ToBf16(stream.get(), n, dev_x.data() + from, y.data() + from);
    FromBf16(stream.get(), n, y.data() + from, back.data() + from);
    return back.Values(stream);
  });
  const Floats rounded = {1,        1 + 0x1p-6f, -0.0f, INFINITY,
                          INFINITY, -INFINITY,   0};
  for (size_t i = 0; i < rounded.size(); ++i) {
    EXPECT_EQ(got[i + from], rounded[i]) << x[i + from];
  }
  EXPECT_TRUE(std::isnan(got.back()));
  for (size_t i = from + special.size(); i + 1 < x.size(); ++i) {
    EXPECT_LE(std::abs(got[i] - x[i]), std::abs(x[i]) / 256);
    EXPECT_EQ(std::bit_cast<uint32_t>(got[i]) & 0xffff, 0u);
  }
}

AdamWRule SomeRule() {
  return {.moments = {0.9, 0.99, 1e-8},
          .grad_scale = 0.5,
          .keep = 0.999,
          .moment_step = 0.01,
          .gradient_step = 0.002,
          .root_correction = 0.3};
}

// `from`: where the arrays begin; 1 leaves no pack aligned.
class UpdateTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Alignment, UpdateTest, testing::Values(0, 1));

TEST_P(UpdateTest, MatchesTheCpu) {
  const int from = GetParam();
  const int64_t n = kSize - from;
  const Floats w = RandomFloats(kSize, 1), g = RandomFloats(kSize, 2),
               m = RandomFloats(kSize, 3);
  Floats v = RandomFloats(kSize, 4);
  for (float& x : v) x *= x;
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<float> adam_w(w), adam_m(m), adam_v(v), dev_g(g),
        turned(g), turned_m(m), turned_v(v), sgd_w(w), sgd_m(m), out(w);
    AdamWStep(stream.get(), n, SomeRule(), adam_w.data() + from,
              dev_g.data() + from, adam_m.data() + from, adam_v.data() + from,
              adam_w.data() + from);
    RotatedDirection(stream.get(), n, SomeRule(), turned.data() + from,
                     turned_m.data() + from, turned_v.data() + from);
    SgdStep(stream.get(), n, 0.9, 0.5, true, 0.999, 0.1, sgd_w.data() + from,
            dev_g.data() + from, sgd_m.data() + from, sgd_w.data() + from);
    ApplyDirection(stream.get(), n, 0.9, 0.1, out.data() + from,
                   dev_g.data() + from, out.data() + from);
    return Joined({adam_w.Values(stream), adam_m.Values(stream),
                   adam_v.Values(stream), turned.Values(stream),
                   turned_m.Values(stream), turned_v.Values(stream),
                   sgd_w.Values(stream), sgd_m.Values(stream),
                   out.Values(stream)});
  });
  const auto& cpu = Kernels<OptimKernels<double>>();
  const Doubles gd = ToDouble(g);
  Doubles adam_w = ToDouble(w), adam_m = ToDouble(m), adam_v = ToDouble(v),
          turned = gd, turned_m = adam_m, turned_v = adam_v, sgd_w = adam_w,
          sgd_m = adam_m, out = adam_w;
  cpu.adamw(n, SomeRule(), &adam_w[from], &gd[from], &adam_m[from],
            &adam_v[from], &adam_w[from]);
  cpu.rotated_direction(n, SomeRule(), &turned[from], &turned_m[from],
                        &turned_v[from]);
  cpu.sgd(n, 0.9, 0.5, true, 0.999, 0.1, &sgd_w[from], &gd[from], &sgd_m[from],
          &sgd_w[from]);
  cpu.apply(n, 0.9, 0.1, &out[from], &gd[from], &out[from]);
  Doubles expected;
  for (const Doubles* part : {&adam_w, &adam_m, &adam_v, &turned, &turned_m,
                              &turned_v, &sgd_w, &sgd_m, &out}) {
    expected.insert(expected.end(), part->begin(), part->end());
  }
  ExpectClose(got, expected, 2e-6, "updated");
}

TEST(ReduceTest, SquareSumsAreThoseOfRanges) {
  const Floats x = RandomFloats(150000, 1);
  const std::vector<int64_t> begin = {0, 16, 1024}, end = {13, 1001, 149997};
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<float> dev_x(x);
    const DeviceArray<int64_t> first(begin), last(end);
    const DeviceArray<double> sums(3), scratch(3 * kReduceScratch);
    SquareSums(stream.get(), 3, first.data(), last.data(), dev_x.data(),
               sums.data(), scratch.data());
    Floats out;
    const Doubles values = sums.Values(stream);
    for (size_t i = 0; i < 3; ++i) {
      double expected = 0;
      for (int64_t j = begin[i]; j < end[i]; ++j) {
        expected += static_cast<double>(x[j]) * x[j];
      }
      EXPECT_NEAR(values[i], expected, 1e-12 * expected);
      out.push_back(static_cast<float>(values[i] - expected));
    }
    return out;
  });
  EXPECT_EQ(got.size(), 3u);
}

TEST(ReduceTest, FindsTheOneThatIsNotFinite) {
  const Stream stream;
  for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {
    for (const int64_t at : {0, 5, 1030}) {
      Floats x = RandomFloats(kSize, 1);
      x[static_cast<size_t>(at)] = bad;
      const DeviceArray<float> dev_x(x);
      const DeviceArray<int> found(std::vector<int>{0});
      FindNonFinite(stream.get(), kSize, dev_x.data(), found.data());
      EXPECT_EQ(found.Values(stream)[0], std::isfinite(bad) ? 0 : 1)
          << bad << " at " << at;
    }
  }
}

class ColumnSumTest
    : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Shapes, ColumnSumTest,
                         testing::Values(std::pair(5, 12), std::pair(300, 130),
                                         std::pair(1, 1), std::pair(77, 33),
                                         std::pair(1500, 4)));

template <typename T>
void ExpectColumnSum(int64_t rows, int64_t cols) {
  const Floats x = RandomOf<T>(rows * cols, 1), before = RandomFloats(cols, 2);
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    const DeviceArray<T> dev_x(x);
    const DeviceArray<float> sum(before), scratch(ColumnSumScratch(cols));
    ColumnSum(stream.get(), rows, cols, 0.5f, dev_x.data(), sum.data(),
              scratch.data());
    return sum.Values(stream);
  });
  Doubles expected = ToDouble(before);
  for (int64_t i = 0; i < rows * cols; ++i) {
    expected[static_cast<size_t>(i % cols)] += 0.5 * x[static_cast<size_t>(i)];
  }
  ExpectClose(got, expected, 2e-6, "sums");
}

TEST_P(ColumnSumTest, AddsScaledColumns) {
  const auto [rows, cols] = GetParam();
  ExpectColumnSum<float>(rows, cols);
}

TEST_P(ColumnSumTest, AddsScaledColumnsOfBf16) {
  const auto [rows, cols] = GetParam();
  ExpectColumnSum<Bf16>(rows, cols);
}

TEST(ReduceTest, SumsInDoublePrecision) {
  const Stream stream;
  const Floats x = RandomFloats(777, 1);
  const DeviceArray<float> dev_x(x);
  const DeviceArray<double> sum(1);
  Sum(stream.get(), 777, dev_x.data(), sum.data());
  double expected = 0;
  for (const float value : x) expected += value;
  EXPECT_NEAR(sum.Values(stream)[0], expected, 1e-10);
}

}  // namespace
}  // namespace gimbal::compute::cuda
