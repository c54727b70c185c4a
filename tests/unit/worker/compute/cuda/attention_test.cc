// Attention against the CPU's in double precision, and its gradient against
// finite differences of its own forward.
//
// In bf16 probabilities P and the gradients of scores dS are rounded before
// they are factors of a product, as tensor cores want them: each by at most
// 1/256 of itself. So o may be off by 1/256 of P |v|, dv by that of P' |dout|,
// dq by that of |dS| |k|, dk by that of |dS|' |q|, and by their own rounding.
// These bounds are worked out for each number (InnerRounding).
#include "worker/compute/attention.h"

#include "tests/unit/worker/compute/cuda/device_array.h"
#include "worker/compute/cuda/attention.h"

namespace gimbal::compute::cuda {
namespace {

int64_t Rows(const AttentionShape& s) { return s.samples * s.context; }
int64_t Width(const AttentionShape& s) { return s.heads * s.head_dim; }

template <typename T>
Floats RunBoth(const Stream& stream, const AttentionShape& shape,
               const Floats& qkv, const Floats& dout) {
  const int64_t n = Rows(shape), c = Width(shape);
  const DeviceArray<T> in(qkv), d(dout), o(n * c), dqkv(n * 3 * c);
  const DeviceArray<float> lse(n * shape.heads),
      scratch(AttentionBackwardScratch(shape));
  AttentionForward(stream.get(), shape, in.data(), o.data(), lse.data());
  AttentionBackward(stream.get(), shape, in.data(), o.data(), lse.data(),
                    d.data(), dqkv.data(), scratch.data());
  return Joined({o.Values(stream), lse.Values(stream), dqkv.Values(stream)});
}

// Tiles that are full, cut, one row; heads of every width of tile and odd ones.
class AttentionTest : public testing::TestWithParam<AttentionShape> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(
        AttentionShape{1, 1, 1, 1}, AttentionShape{2, 17, 2, 8},
        AttentionShape{1, 70, 2, 7}, AttentionShape{1, 64, 1, 32},
        AttentionShape{2, 65, 1, 24}, AttentionShape{1, 37, 2, 48},
        AttentionShape{1, 1, 2, 64}, AttentionShape{1, 33, 1, 64},
        AttentionShape{1, 130, 2, 64}, AttentionShape{1, 193, 1, 64},
        AttentionShape{1, 130, 1, 80}, AttentionShape{1, 19, 1, 100},
        AttentionShape{1, 65, 1, 101}, AttentionShape{1, 97, 1, 128}));

// The vectors of a head, in arrays of rows.
struct Head {
  const AttentionShape& shape;
  int64_t sample, head;

  int64_t In(int64_t row, int64_t width, int64_t part) const {
    return (sample * shape.context + row) * width * Width(shape) +
           part * Width(shape) + head * shape.head_dim;
  }
  double Dot(const Doubles& x, int64_t i, const Doubles& y, int64_t j) const {
    double sum = 0;
    for (int64_t e = 0; e < shape.head_dim; ++e) sum += x[i + e] * y[j + e];
    return sum;
  }
  // y[j] += factor |x[i]|
  void AddAbsolute(double factor, const Doubles& x, int64_t i, Doubles& y,
                   int64_t j) const {
    for (int64_t e = 0; e < shape.head_dim; ++e) {
      y[j + e] += factor * std::abs(x[i + e]);
    }
  }
};

// How far rounding P and dS may move o and dqkv.
void AddInnerRounding(const Head& head, const Doubles& qkv, const Doubles& o,
                      const Doubles& lse, const Doubles& dout, Doubles& in_o,
                      Doubles& in_dqkv) {
  const double scale = 1 / std::sqrt(static_cast<double>(head.shape.head_dim));
  for (int64_t i = 0; i < head.shape.context; ++i) {
    const int64_t row = head.In(i, 1, 0), q = head.In(i, 3, 0);
    const double log_sum =
        lse[(head.sample * head.shape.context + i) * head.shape.heads +
            head.head];
    const double delta = head.Dot(o, row, dout, row);
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t k = head.In(j, 3, 1), v = head.In(j, 3, 2);
      const double p = std::exp(scale * head.Dot(qkv, q, qkv, k) - log_sum);
      const double ds =
          scale * p * std::abs(head.Dot(dout, row, qkv, v) - delta);
      head.AddAbsolute(kBf16Rounding * p, qkv, v, in_o, row);
      head.AddAbsolute(kBf16Rounding * p, dout, row, in_dqkv, v);
      head.AddAbsolute(kBf16Rounding * ds, qkv, k, in_dqkv, q);
      head.AddAbsolute(kBf16Rounding * ds, qkv, q, in_dqkv, k);
    }
  }
}

// Beside o, lse and dqkv.
Doubles InnerRounding(const AttentionShape& shape, const Doubles& qkv,
                      const Doubles& o, const Doubles& lse,
                      const Doubles& dout) {
  Doubles all(o.size()), in_dqkv(qkv.size());
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      AddInnerRounding({shape, sample, head}, qkv, o, lse, dout, all, in_dqkv);
    }
  }
  all.resize(o.size() + lse.size());
  all.insert(all.end(), in_dqkv.begin(), in_dqkv.end());
  return all;
}

// Backward starts from the output as it was stored.
template <typename T>
void ExpectAttention(const AttentionShape& shape) {
  const int64_t n = Rows(shape), c = Width(shape);
  const Floats qkv = RandomOf<T>(n * 3 * c, 1), dout = RandomOf<T>(n * c, 2);
  const Floats got = UnderAllSeeds([&](const Stream& stream) {
    return RunBoth<T>(stream, shape, qkv, dout);
  });
  const Doubles in = ToDouble(qkv), d = ToDouble(dout);
  Doubles o(n * c), lse(n * shape.heads), dqkv(n * 3 * c),
      scratch(AttentionScratch(shape));
  compute::AttentionForward<double>(shape, in.data(), o.data(), lse.data(),
                                    scratch.data());
  const Doubles stored(got.begin(), got.begin() + n * c);
  compute::AttentionBackward<double>(shape, in.data(), stored.data(),
                                     lse.data(), d.data(), dqkv.data(),
                                     scratch.data());
  Doubles expected = o;
  expected.insert(expected.end(), lse.begin(), lse.end());
  expected.insert(expected.end(), dqkv.begin(), dqkv.end());
  Doubles inner;
  if (std::is_same_v<T, Bf16>) {
    inner = InnerRounding(shape, in, stored, lse, d);
  }
  ExpectClose<T>(got, expected, 3e-6, "o, lse, dqkv", inner);
  const auto statistics = got.begin() + n * c;
  ExpectClose({statistics, statistics + n * shape.heads}, lse, 3e-6, "lse");
}

TEST_P(AttentionTest, MatchesTheCpu) { ExpectAttention<float>(GetParam()); }

TEST_P(AttentionTest, MatchesTheCpuInBf16) {
  ExpectAttention<Bf16>(GetParam());
}

// Of sum(dout o) by each number of qkv.
template <typename T>
void ExpectGradient(const AttentionShape& shape, float step, double tolerance) {
  const int64_t n = Rows(shape), c = Width(shape);
  const Floats qkv = RandomOf<T>(n * 3 * c, 1), dout = RandomOf<T>(n * c, 2);
  const Stream stream;
  const auto loss = [&](const Floats& x) {
    const Floats all = RunBoth<T>(stream, shape, x, dout);
    double sum = 0;
    for (int64_t i = 0; i < n * c; ++i) {
      sum += static_cast<double>(all[static_cast<size_t>(i)]) *
             dout[static_cast<size_t>(i)];
    }
    return sum;
  };
  const Floats all = RunBoth<T>(stream, shape, qkv, dout);
  const size_t first = static_cast<size_t>(n * c + n * shape.heads);
  double worst = 0, largest = 0;
  for (size_t i = 0; i < qkv.size(); ++i) {
    Floats up = qkv, down = qkv;
    up[i] = static_cast<float>(static_cast<T>(up[i] + step));
    down[i] = static_cast<float>(static_cast<T>(down[i] - step));
    const double difference = (loss(up) - loss(down)) / (up[i] - down[i]);
    worst = std::max(worst, std::abs(difference - all[first + i]));
    largest = std::max(largest, std::abs(difference));
  }
  EXPECT_GE(largest, 1);  // beside that the tolerance is small
  EXPECT_LE(worst, tolerance);
}

TEST(AttentionGradientTest, IsThatOfTheForward) {
  ExpectGradient<float>({1, 5, 1, 4}, 1e-2f, 2e-3);
}

// A step beside which the roundings of o are small.
TEST(AttentionGradientTest, IsThatOfTheForwardInBf16) {
  ExpectGradient<Bf16>({1, 5, 1, 4}, 0.25f, 0.03);
}

}  // namespace
}  // namespace gimbal::compute::cuda
