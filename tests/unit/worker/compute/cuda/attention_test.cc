// Attention against the CPU's in double precision, and its gradient against
// finite differences of its own forward.
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
    testing::Values(AttentionShape{1, 1, 1, 1}, AttentionShape{2, 17, 2, 8},
                    AttentionShape{1, 70, 2, 7}, AttentionShape{1, 64, 1, 32},
                    AttentionShape{1, 37, 2, 48}, AttentionShape{1, 33, 1, 64},
                    AttentionShape{1, 19, 1, 100},
                    AttentionShape{1, 35, 1, 128}));

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
  ExpectClose<T>(got, expected, 3e-6, "o, lse, dqkv");
  const auto statistics = got.begin() + n * c;
  ExpectClose({statistics, statistics + n * shape.heads}, lse, 3e-6, "lse");
}

TEST_P(AttentionTest, MatchesTheCpu) { ExpectAttention<float>(GetParam()); }

TEST_P(AttentionTest, MatchesTheCpuInBf16) {
  ExpectAttention<Bf16>(GetParam());
}

TEST(AttentionGradientTest, IsThatOfTheForward) {
  const AttentionShape shape{1, 5, 1, 4};
  const int64_t n = Rows(shape), c = Width(shape);
  const Floats qkv = RandomFloats(n * 3 * c, 1), dout = RandomFloats(n * c, 2);
  const Stream stream;
  const auto loss = [&](const Floats& x) {
    const Floats all = RunBoth<float>(stream, shape, x, dout);
    double sum = 0;
    for (int64_t i = 0; i < n * c; ++i) {
      sum += static_cast<double>(all[static_cast<size_t>(i)]) *
             dout[static_cast<size_t>(i)];
    }
    return sum;
  };
  const Floats all = RunBoth<float>(stream, shape, qkv, dout);
  const size_t first = static_cast<size_t>(n * c + n * shape.heads);
  constexpr float kStep = 1e-2f;
  for (size_t i = 0; i < qkv.size(); ++i) {
    Floats up = qkv, down = qkv;
    up[i] += kStep;
    down[i] -= kStep;
    EXPECT_NEAR((loss(up) - loss(down)) / (2 * kStep), all[first + i], 2e-3)
        << i;
  }
}

}  // namespace
}  // namespace gimbal::compute::cuda
