// The update rule on CUDA against the CPU's, update by
// update: weights, predicted and corrected weights, and every tensor of the
// state. After each update the device gets the CPU's state, so that a
// difference cannot grow.
#include "worker/pipeline/cuda/cuda_update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/support/device_order.h"
#include "tests/unit/worker/optim/optim_test_util.h"

namespace gimbal::worker {
namespace {

namespace cuda = compute::cuda;
using Floats = std::vector<float>;

// What rounding makes of a badly conditioned basis; it depends on the CPU's
// BLAS too. Seen: up to 2e-4 with OpenBLAS's kernels for AVX2, 2.7e-4 with
// those for AVX-512.
constexpr double kTolerance = 5e-4;

class Arena {
 public:
  explicit Arena(const Floats& host)
      : buffer_(static_cast<int64_t>(host.size())) {
    Write(host);
  }
  float* data() const { return buffer_.data(); }
  void Write(const Floats& host) {
    GIMBAL_CUDA_CHECK(cudaDeviceSynchronize());
    GIMBAL_CUDA_CHECK(cudaMemcpy(buffer_.data(), host.data(), buffer_.bytes(),
                                 cudaMemcpyHostToDevice));
  }
  Floats Values() const {
    Floats host(static_cast<size_t>(buffer_.size()));
    GIMBAL_CUDA_CHECK(cudaDeviceSynchronize());
    GIMBAL_CUDA_CHECK(cudaMemcpy(host.data(), buffer_.data(), buffer_.bytes(),
                                 cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  cuda::DeviceBuffer<float> buffer_;
};

// Of a tensor on the device.
Floats ValuesOf(StateTensor<float> tensor) {
  GIMBAL_CUDA_CHECK(cudaDeviceSynchronize());
  const auto n = static_cast<size_t>(tensor.size());
  Floats values(n);
  std::vector<uint16_t> half(tensor.half == nullptr ? 0 : n);
  if (tensor.half == nullptr) {
    GIMBAL_CUDA_CHECK(
        cudaMemcpy(values.data(), tensor.data, n * 4, cudaMemcpyDefault));
  } else {
    GIMBAL_CUDA_CHECK(
        cudaMemcpy(half.data(), tensor.half, n * 2, cudaMemcpyDefault));
    tensor.half = half.data();
    tensor.Save(values.data());
  }
  return values;
}

void Copy(const StateTensor<float>& host, const StateTensor<float>& device) {
  const auto n = static_cast<size_t>(host.size());
  if (host.half == nullptr) {
    GIMBAL_CUDA_CHECK(
        cudaMemcpy(device.data, host.data, n * 4, cudaMemcpyDefault));
  } else {
    GIMBAL_CUDA_CHECK(
        cudaMemcpy(device.half, host.half, n * 2, cudaMemcpyDefault));
  }
}

// Largest distance, relative to the largest number; 1e9 where one of them alone
// is not finite.
double Distance(const Floats& actual, const Floats& expected) {
  double largest = 0, distance = 0;
  for (const float x : expected) {
    if (std::isfinite(x)) largest = std::max<double>(largest, std::abs(x));
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(actual[i]) != std::isfinite(expected[i])) return 1e9;
    if (!std::isfinite(expected[i])) continue;
    distance = std::max<double>(distance, std::abs(actual[i] - expected[i]));
  }
  return distance / (largest + 1e-6);
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

struct Case {
  const char* name = "";
  StageUpdateSpec spec;
  int hidden = 6, mlp = 10;
  int64_t poisoned = 0;  // the update whose gradient has an infinity
};

StageUpdateSpec Rotation(RotationSpec rotation) {
  return {.optimizer = {.kind = OptimizerKind::kBasisRotation,
                        .beta2 = 0.9,
                        .eps = 1e-2,
                        .rotation = rotation},
          .lr = {.kind = LrKind::kConstant, .peak = 0.1, .steps = 100},
          .clip = 3};
}

// Both back ends, side by side.
class Twins {
 public:
  explicit Twins(const Case& c)
      : case_(c),
        table_(SmallTable(c.hidden, c.mlp, /*layers=*/2)),
        cpu_(c.spec, table_),
        cuda_(c.spec, table_, stream_.get(), gemm_),
        weights_(RandomWeights<float>(table_)) {}

  void Run(int64_t updates) {
    for (int64_t t = 1; t <= updates; ++t) Update(t);
  }

 private:
  Floats Gradient(int64_t t) const {
    Floats grads = RandomGradient<float>(table_, t);
    if (t == case_.poisoned) {
      grads[static_cast<size_t>(table_.at("h.1.mlp.fc.weight").offset) + 3] =
          INFINITY;
    }
    return grads;
  }

  void Update(int64_t t) {
    Floats grads = Gradient(t), next(weights_.size()), ahead(weights_.size());
    const Floats then = RandomGradient<float>(table_, 1000 + t);
    const Arena dev_grads(grads), dev_old(weights_), dev_next(next),
        dev_ahead(ahead), dev_then(then), dev_backward(next);
    UpdateInput input{.update = t, .square_sum = 4, .refresh = t % 3 == 0};
    const auto fill = [&](auto& x, auto& old, auto& g, auto& th, auto& p) {
      input.old_weights = old.data();
      input.new_weights = x.data();
      input.grads = g.data();
      input.then = th.data();
      input.predicted = p.data();
    };
    fill(dev_next, dev_old, dev_grads, dev_then, dev_ahead);
    cuda_.Apply(input);
    fill(next, weights_, grads, then, ahead);
    cpu_.Apply(input);
    Expect(dev_next.Values(), next, t, "weights");
    if (cpu_.needs().prediction) {
      Expect(dev_ahead.Values(), ahead, t, "predicted");
    }
    if (cpu_.needs().correction) {
      Floats backward(next.size());
      cpu_.FillBackwardWeights(next.data(), backward.data());
      cuda_.FillBackwardWeights(dev_next.data(), dev_backward.data());
      Expect(dev_backward.Values(), backward, t, "backward weights");
    }
    CompareState(t);
    weights_ = next;
  }

  void CompareState(int64_t t) {
    const auto cpu = cpu_.State(), cuda = cuda_.State();
    ASSERT_EQ(cuda.size(), cpu.size());
    for (size_t i = 0; i < cpu.size(); ++i) {
      ASSERT_EQ(cuda[i].name, cpu[i].name);
      ASSERT_EQ(cuda[i].rows, cpu[i].rows);
      ASSERT_EQ(cuda[i].cols, cpu[i].cols);
      EXPECT_EQ(cuda[i].of_delay, cpu[i].of_delay);
      Floats expected(static_cast<size_t>(cpu[i].size()));
      cpu[i].Save(expected.data());
      if (!IsFree(t, cpu[i].name)) {
        Expect(ValuesOf(cuda[i]), expected, t, cpu[i].name);
      }
    }
    const auto expected = cpu_.optimizer().basis_health();
    const auto health = cuda_.basis_health();
    ASSERT_EQ(health.has_value(), expected.has_value());
    if (health) {
      EXPECT_NEAR(health->offdiagonal_ratio, expected->offdiagonal_ratio, 1e-3);
      EXPECT_NEAR(health->orthogonality_error, expected->orthogonality_error,
                  2e-6 + 1e-2 * expected->orthogonality_error);
    }
    for (size_t i = 0; i < cpu.size(); ++i) Copy(cpu[i], cuda[i]);
    cuda_.StateWritten();
  }

  // Singular vectors are unique up to their signs, and those that complete the
  // larger side up to a rotation; weights do not depend on either.
  bool IsFree(int64_t t, const std::string& name) const {
    const RotationSpec& r = case_.spec.optimizer.rotation;
    if (EndsWith(name, ".health")) return true;  // rounding, see above
    return t == 1 && r.source == RotationSource::kFirst &&
           (EndsWith(name, ".U") || EndsWith(name, ".V") ||
            EndsWith(name, ".m"));
  }

  void Expect(const Floats& actual, const Floats& expected, int64_t t,
              const std::string& what) const {
    EXPECT_LE(Distance(actual, expected), kTolerance)
        << case_.name << ", update " << t << ", " << what;
  }

  const Case case_;
  const ParameterTable table_;
  const cuda::Stream stream_;
  cuda::Gemm gemm_;
  StageUpdate cpu_;
  CudaUpdate cuda_;
  Floats weights_;
};

constexpr auto kFirst = RotationSource::kFirst;
constexpr auto kUnilateral = RotationGeometry::kUnilateral;
constexpr auto kRotate = MomentTransport::kRotate;

TEST(CudaUpdate, RotatesAsTheCpuDoes) {
  const Case cases[] = {
      {"second", Rotation({})},
      {"second, rotate", Rotation({.transport = kRotate})},
      {"second, unilateral", Rotation({.geometry = kUnilateral})},
      {"second, unilateral, rotate",
       Rotation({.geometry = kUnilateral, .transport = kRotate})},
      {"first", Rotation({.source = kFirst})},
      {"first, rotate", Rotation({.source = kFirst, .transport = kRotate})},
      {"first, unilateral",
       Rotation({.source = kFirst, .geometry = kUnilateral})},
      {"second, one side too large", Rotation({.max_dim = 8})},
      {"first, one side too large", Rotation({.source = kFirst, .max_dim = 8})},
      {"embeddings", Rotation({.embeddings = true})},
      {"packs of four", Rotation({}), 8, 12},
  };
  for (const Case& c : cases) Twins(c).Run(7);
}

TEST(CudaUpdate, RotatesAsTheCpuDoesWithEveryOtherKey) {
  Case nesterov{"nesterov", Rotation({})};
  nesterov.spec.optimizer.nesterov = true;
  Case reset{"moment reset", Rotation({.source = kFirst})};
  reset.spec.optimizer.moment_reset = 4;
  Case lrs{"learning rates", Rotation({.max_dim = 7})};
  lrs.spec.mitigation = {.lr_linear = true, .lr_matrix_factor = 0.5};
  lrs.spec.delay = 2;
  const Case half{"fp16", Rotation({.half_basis = true})};
  const Case half_rotate{"fp16, rotate",
                         Rotation({.transport = kRotate, .half_basis = true})};
  const Case strict{"strict", Rotation({.max_orthogonality_error = 0})};
  for (const Case& c : {nesterov, reset, lrs, half, half_rotate, strict}) {
    Twins(c).Run(7);
  }
}

TEST(CudaUpdate, OrthogonalizesAsTheCpuDoes) {
  for (const bool nesterov : {false, true}) {
    Case muon{"muon", Rotation({})};
    muon.spec.optimizer.kind = OptimizerKind::kMuon;
    muon.spec.optimizer.nesterov = nesterov;
    muon.spec.optimizer.moment_reset = 3;
    Twins(muon).Run(4);
    muon.spec.optimizer.muon.iterations = 4;
    muon.poisoned = 2;
    Twins(muon).Run(2);
  }
}

TEST(CudaUpdate, MitigatesAsTheCpuDoes) {
  const std::pair<const char*, MitigationSpec> mitigations[] = {
      {"prediction", {.weight_prediction = true}},
      {"compensation", {.compensation = 0.5}},
      {"adaptive compensation",
       {.compensation = 0.5, .compensation_adaptive = true}},
      {"rotated compensation",
       {.compensation = 0.5, .compensation_rotated = true}},
      {"rotated adaptive compensation",
       {.compensation = 0.5,
        .compensation_adaptive = true,
        .compensation_rotated = true}},
      {"error feedback", {.error_feedback = true}},
      {"discrepancy correction", {.discrepancy_decay = 0.5}},
      {"all",
       {.weight_prediction = true,
        .compensation = 0.5,
        .error_feedback = true,
        .discrepancy_decay = 0.5}}};
  for (const auto& [name, mitigation] : mitigations) {
    const bool alone = std::string(name) != "all";
    for (const auto kind :
         {OptimizerKind::kAdamW, OptimizerKind::kBasisRotation,
          OptimizerKind::kMuon, OptimizerKind::kSgd}) {
      if (alone && kind != OptimizerKind::kBasisRotation) continue;
      Case c{name, Rotation({.max_dim = 8})};
      c.spec.optimizer.kind = kind;
      c.spec.optimizer.nesterov = kind == OptimizerKind::kAdamW;
      c.spec.mitigation = mitigation;
      c.spec.delay = 3;
      Twins(c).Run(3);
    }
  }
}

TEST(CudaUpdate, PredictsManyUpdatesAhead) {
  Case c{"a long way ahead", Rotation({})};
  c.spec.optimizer.kind = OptimizerKind::kAdamW;
  c.spec.mitigation.weight_prediction = true;
  c.spec.delay = 70;
  Twins(c).Run(2);
}

TEST(CudaUpdate, KeepsTheBasesThatBadGradientsWouldReplace) {
  for (const auto source : {RotationSource::kSecond, kFirst}) {
    for (const int64_t poisoned : {1, 3}) {
      Twins({"infinity", Rotation({.source = source}), 6, 10, poisoned}).Run(3);
    }
  }
}

TEST(CudaUpdate, HasTheSameBitsUnderAnyOrderOfTheDevice) {
  const ParameterTable table = SmallTable(6, 10, 2);
  for (const auto source : {RotationSource::kSecond, kFirst}) {
    Floats first;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      test_support::SetDeviceOrder(seed);
      const cuda::Stream stream;
      cuda::Gemm gemm;
      CudaUpdate update(Rotation({.source = source}), table, stream.get(),
                        gemm);
      const Arena weights(RandomWeights<float>(table));
      for (int64_t t = 1; t <= 3; ++t) {
        const Arena grads(RandomGradient<float>(table, t));
        update.Apply({.update = t,
                      .square_sum = 1,
                      .refresh = t == 2,
                      .old_weights = weights.data(),
                      .new_weights = weights.data(),
                      .grads = grads.data()});
        stream.Wait();
      }
      if (seed == 0) first = weights.Values();
      ASSERT_EQ(weights.Values(), first) << "seed " << seed;
    }
  }
}

// Weights and state after some updates.
std::vector<Floats> NumbersOf(StageUpdateSpec spec, bool offload, uint64_t seed,
                              CudaState::Traffic* traffic = nullptr) {
  test_support::SetDeviceOrder(seed);
  spec.optimizer.offload = offload;
  const ParameterTable table = SmallTable(8, 12, 3);
  const cuda::Stream stream;
  cuda::Gemm gemm;
  CudaUpdate update(spec, table, stream.get(), gemm);
  const Arena first(RandomWeights<float>(table)), second(first.Values()),
      ahead(first.Values());
  // All of them first: what takes or frees memory waits for the device.
  std::vector<Arena> grads;
  for (int64_t t = 1; t <= 4; ++t) {
    grads.emplace_back(RandomGradient<float>(table, t));
  }
  for (int64_t t = 1; t <= 4; ++t) {
    update.Apply({.update = t,
                  .square_sum = 4,
                  .refresh = t == 3,
                  .old_weights = (t % 2 == 0 ? second : first).data(),
                  .new_weights = (t % 2 == 0 ? first : second).data(),
                  .grads = grads[static_cast<size_t>(t - 1)].data(),
                  .then = first.data(),
                  .predicted = ahead.data()});
  }
  update.SettleState();
  std::vector<Floats> numbers = {first.Values(), ahead.Values()};
  for (const auto& tensor : update.State()) {
    numbers.push_back(ValuesOf(tensor));
  }
  if (traffic != nullptr) *traffic = update.traffic();
  return numbers;
}

TEST(CudaUpdate, HasTheSameBitsWithItsStateOnTheHost) {
  std::vector<StageUpdateSpec> specs = {
      Rotation({}),
      Rotation({.source = kFirst, .transport = kRotate}),
      Rotation({.geometry = kUnilateral, .half_basis = true}),
  };
  for (const auto kind :
       {OptimizerKind::kAdamW, OptimizerKind::kMuon, OptimizerKind::kSgd}) {
    specs.push_back(Rotation({}));
    specs.back().optimizer.kind = kind;
    specs.back().optimizer.nesterov = kind == OptimizerKind::kAdamW;
    specs.back().optimizer.moment_reset = 3;
  }
  specs.push_back(specs[0]);
  specs.back().delay = 2;
  specs.back().mitigation = {.weight_prediction = true,
                             .compensation = 0.5,
                             .compensation_adaptive = true,
                             .compensation_rotated = true,
                             .error_feedback = true};
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto expected = NumbersOf(specs[i], false, 1);
    // The first and the last have everything that the others have.
    const uint64_t seeds = i == 0 || i + 1 == specs.size() ? 20 : 4;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      ASSERT_EQ(NumbersOf(specs[i], true, seed), expected)
          << "rule " << i << ", seed " << seed;
    }
  }
}

// Per update: all of the state comes, what has changed goes home; bases change
// at a refresh.
TEST(CudaUpdate, MovesNoMoreOfItsStateThanItMust) {
  const ParameterTable table = SmallTable(8, 12, 3);
  const auto expect = [&](const StageUpdateSpec& spec, int64_t refreshes,
                          int64_t passes) {
    OptimizerSpec optimizer = spec.optimizer;
    optimizer.offload = true;
    const UpdateUnits units(optimizer, table);
    ASSERT_GT(units.units.size(), 2u);
    int64_t all = 0, bases = 0, first_two = 0;
    for (size_t i = 0; i < units.units.size(); ++i) {
      const UpdateUnit& unit = units.units[i];
      const int64_t bytes = unit.state[0].bytes + unit.state[1].bytes;
      all += bytes;
      if (unit.updates_matrices()) bases += unit.state[1].bytes;
      // Come ahead of the next update.
      if (i < 2) first_two += bytes;
    }
    CudaState::Traffic traffic;
    NumbersOf(spec, true, 1, &traffic);
    EXPECT_EQ(traffic.brought, 4 * passes * all + first_two);
    EXPECT_EQ(traffic.returned, 4 * (all - bases) + refreshes * bases);
    EXPECT_EQ(refreshes > 0, bases > 0);
  };
  expect(Rotation({}), 2, 1);
  StageUpdateSpec adamw = Rotation({});
  adamw.optimizer.kind = OptimizerKind::kAdamW;
  expect(adamw, 0, 1);
  adamw.delay = 2;
  adamw.mitigation.weight_prediction = true;
  expect(adamw, 0, 2);
}

TEST(CudaUpdate, SaysHowLongTheBasesTook) {
  const ParameterTable table = SmallTable(6, 10, 2);
  const cuda::Stream stream;
  cuda::Gemm gemm;
  CudaUpdate update(Rotation({}), table, stream.get(), gemm);
  const Arena weights(RandomWeights<float>(table));
  BasisSeconds before;
  for (int64_t t = 1; t <= 2; ++t) {
    const Arena grads(RandomGradient<float>(table, t));
    update.Apply({.update = t,
                  .square_sum = 1,
                  .old_weights = weights.data(),
                  .new_weights = weights.data(),
                  .grads = grads.data()});
    const BasisSeconds after = update.basis_seconds();
    EXPECT_GT(after.rotate, before.rotate);
    if (t == 1) {
      EXPECT_GT(after.refresh, 0) << "the cold start";
    }
    EXPECT_LE(after.rotate + after.refresh, 600);
    before = after;
  }
}

}  // namespace
}  // namespace gimbal::worker
