#include "worker/compute/attention.h"

#include "tests/support/gradcheck.h"
#include "tests/unit/worker/compute/isa_param.h"

namespace gimbal::compute {
namespace {

using gimbal::testing::Dot;
using gimbal::testing::ExpectClose;
using gimbal::testing::ExpectGradient;
using gimbal::testing::RandomValues;

template <typename T>
struct Problem {
  AttentionShape shape;
  int64_t n, c;
  std::vector<T> qkv, r;  // r: gradient of o
  std::vector<T> o, lse, dqkv, scratch;

  explicit Problem(const AttentionShape& s)
      : shape(s),
        n(s.samples * s.context),
        c(s.heads * s.head_dim),
        qkv(RandomValues<T>(n * 3 * c, "qkv")),
        r(RandomValues<T>(n * c, "r")),
        o(n * c),
        lse(n * s.heads),
        dqkv(n * 3 * c, T(99)),
        scratch(AttentionScratch(s)) {}

  void Forward() {
    AttentionForward(shape, qkv.data(), o.data(), lse.data(), scratch.data());
  }
  void Backward() {
    AttentionBackward(shape, qkv.data(), o.data(), lse.data(), r.data(),
                      dqkv.data(), scratch.data());
  }
};

// The definition, written out.
std::vector<double> Reference(const Problem<double>& p) {
  std::vector<double> o(p.n * p.c);
  for (int64_t row = 0; row < p.n; ++row) {
    const int64_t first = row / p.shape.context * p.shape.context;
    for (int64_t head = 0; head < p.shape.heads; ++head) {
      const int64_t at = head * p.shape.head_dim;
      std::vector<double> weight;
      double sum = 0;
      for (int64_t key = first; key <= row; ++key) {
        double score = 0;
        for (int64_t i = at; i < at + p.shape.head_dim; ++i) {
          score += p.qkv[row * 3 * p.c + i] * p.qkv[(key * 3 + 1) * p.c + i];
        }
        weight.push_back(std::exp(score / std::sqrt(p.shape.head_dim)));
        sum += weight.back();
      }
      for (int64_t key = first; key <= row; ++key) {
        for (int64_t i = at; i < at + p.shape.head_dim; ++i) {
          o[row * p.c + i] +=
              weight[key - first] / sum * p.qkv[(key * 3 + 2) * p.c + i];
        }
      }
    }
  }
  return o;
}

// Contexts below, at and across the border of a tile of rows.
const std::vector<AttentionShape> kShapes = {
    {.samples = 2, .context = 1, .heads = 1, .head_dim = 2},
    {.samples = 2, .context = 13, .heads = 3, .head_dim = 5},
    {.samples = 1, .context = 64, .heads = 1, .head_dim = 4},
    {.samples = 2, .context = 131, .heads = 2, .head_dim = 3},
    {.samples = 1, .context = 300, .heads = 1, .head_dim = 7}};

TEST(AttentionTest, MatchesTheDefinition) {
  for (const AttentionShape& shape : kShapes) {
    Problem<double> p(shape);
    p.Forward();
    ExpectClose("o", p.o, Reference(p), 1e-13);
  }
}

TEST(AttentionTest, GradientMatchesFiniteDifferences) {
  for (const AttentionShape& shape :
       {kShapes[0], kShapes[1],
        AttentionShape{
            .samples = 1, .context = 131, .heads = 1, .head_dim = 2}}) {
    Problem<double> p(shape);
    p.Forward();
    p.Backward();
    ExpectGradient("dqkv", p.qkv, p.dqkv, [&] {
      p.Forward();
      return Dot(p.r, p.o);
    });
  }
}

TEST(AttentionTest, FloatAgreesWithDouble) {
  for (const AttentionShape& shape : kShapes) {
    Problem<float> p(shape);
    Problem<double> exact(shape);
    p.Forward();
    p.Backward();
    exact.Forward();
    exact.Backward();
    ExpectClose("o", p.o, exact.o, 2e-6);
    ExpectClose("lse", p.lse, exact.lse, 2e-6);
    ExpectClose("dqkv", p.dqkv, exact.dqkv, 2e-6);
  }
}

TEST(AttentionTest, LaterPositionsHaveNoInfluence) {
  Problem<float> p({.samples = 1, .context = 140, .heads = 2, .head_dim = 8});
  p.Forward();
  const auto before = p.o;
  std::fill(p.qkv.begin() + 100 * 3 * p.c, p.qkv.end(), 7.0f);
  p.Forward();
  for (int64_t i = 0; i < 100 * p.c; ++i) ASSERT_EQ(p.o[i], before[i]) << i;
}

class AttentionKernelsTest : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionKernelsTest,
                         ::testing::ValuesIn(SupportedIsas()), IsaName);

TEST_P(AttentionKernelsTest, FloatAgreesWithDouble) {
  constexpr int64_t kRows = 37, kFirst = 64, kCols = kFirst + kRows, kDim = 19;
  const auto run = [&]<typename T>(Isa isa, T scale) {
    const auto& kernels = KernelsFor<AttentionKernels<T>>(isa);
    auto scores = RandomValues<T>(kRows * kCols, "scores");
    auto ds = RandomValues<T>(kRows * kCols, "dp");
    auto o = RandomValues<T>(kRows * kDim, "o");
    const auto dout = RandomValues<T>(kRows * kDim, "dout");
    std::vector<T> p = scores, inverse(kRows), lse(kRows * 2);
    kernels.softmax(kRows, kFirst, scale, scores.data(), inverse.data(),
                    lse.data(), 2);
    kernels.backward(kRows, kFirst, kDim, scale, o.data(), dout.data(), kDim,
                     lse.data(), 2, p.data(), ds.data());
    kernels.scale_rows(kRows, kDim, inverse.data(), o.data(), kDim);
    return std::vector<std::vector<T>>{scores, p, ds, inverse, lse, o};
  };
  const auto got = run(GetParam(), 0.5f);
  const auto want = run(Isa::kBaseline, 0.5);
  for (size_t i = 0; i < want.size(); ++i) {
    ExpectClose("output " + std::to_string(i), got[i], want[i], 2e-6);
  }
  // Beyond the diagonal there is nothing.
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = kFirst + i + 1; j < kCols; ++j) {
      for (int output : {0, 1, 2}) EXPECT_EQ(got[output][i * kCols + j], 0);
    }
  }
}

}  // namespace
}  // namespace gimbal::compute
