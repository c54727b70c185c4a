// Time per update of the optimizers on 6 blocks of hidden 384 (10.6 million
// parameters in the matrices), one thread, against what the machine can do:
//   AdamW               bytes/s, to hold against Copy
//   Rotation/update     FLOP/s, to hold against Sgemm
//   Rotation/refresh    an update that refreshes every basis
//   Rotation/period_10  mean over ten updates, one of them a refresh
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "worker/compute/gemm.h"
#include "worker/compute/runtime.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {
namespace {

constexpr int kHidden = 384;
constexpr int kMlpHidden = 4 * kHidden;

const ParameterTable& Table() {
  static const auto* table = new ParameterTable(
      ParameterTable::ForStage({.model =
                                    {
                                        .layers = 6,
                                        .hidden = kHidden,
                                        .heads = 6,
                                        .context = 256,
                                        .vocab = 256,
                                        .mlp_hidden = kMlpHidden,
                                    },
                                .blocks = 6}));
  return *table;
}

std::vector<float> Normal(int64_t n) {
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(base::RandomNormal(1, 1, i));
  }
  return x;
}

// An optimizer that is past its cold start.
class Fixture {
 public:
  explicit Fixture(OptimizerKind kind)
      : grads_(Normal(Table().size())),
        older_(Table().size()),
        newer_(Table().size()),
        optimizer_(std::make_unique<Optimizer<float>>(
            OptimizerSpec{.kind = kind}, Table())) {
    Step(true);
  }

  // A random gradient of its own for every update would cost more than the
  // update: each is the same one with another part of it negated.
  void Step(bool refresh) {
    ++update_;
    const int64_t part = static_cast<int64_t>(grads_.size()) / 37;
    for (int64_t i = update_ % 37 * part; i < (update_ % 37 + 1) * part; ++i) {
      grads_[i] = -grads_[i];
    }
    optimizer_->Step({.update = update_, .lr = 1e-3, .refresh = refresh},
                     older_.data(), grads_.data(), newer_.data());
    std::swap(older_, newer_);
  }

 private:
  int64_t update_ = 0;
  std::vector<float> grads_, older_, newer_;
  std::unique_ptr<Optimizer<float>> optimizer_;
};

double RotationFlop() {
  double flop = 0;
  for (const Param& p : Table().params()) {
    if (p.group != ParamGroup::kMatrix) continue;
    flop += 5.0 * static_cast<double>(p.size() * (p.rows + p.cols));
  }
  return flop;
}

void SetRate(benchmark::State& state, const char* name, double amount) {
  state.counters[name] =
      benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
}

void Copy(benchmark::State& state) {
  const std::vector<float> from = Normal(Table().size());
  std::vector<float> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  SetRate(state, "bytes", 2.0 * static_cast<double>(from.size()) * 4);
}
BENCHMARK(Copy)->Unit(benchmark::kMillisecond);

void AdamW(benchmark::State& state) {
  Fixture fixture(OptimizerKind::kAdamW);
  for (auto _ : state) fixture.Step(false);
  // Reads w, g, m, v and writes w, m, v.
  SetRate(state, "bytes", 7.0 * static_cast<double>(Table().size()) * 4);
}
BENCHMARK(AdamW)->Unit(benchmark::kMillisecond);

void SquareSums(benchmark::State& state) {
  const std::vector<float> grads = Normal(Table().size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(LayerSquareSums(Table(), grads.data()));
  }
  SetRate(state, "bytes", static_cast<double>(grads.size()) * 4);
}
BENCHMARK(SquareSums)->Unit(benchmark::kMillisecond);

// The larger product of an MLP matrix.
void Sgemm(benchmark::State& state) {
  const std::vector<float> a = Normal(kMlpHidden * kMlpHidden);
  const std::vector<float> b = Normal(kMlpHidden * kHidden);
  std::vector<float> c(b.size());
  for (auto _ : state) {
    compute::Gemm<float>(compute::Trans::kNo, compute::Trans::kNo, kMlpHidden,
                         kHidden, kMlpHidden, 1, a.data(), kMlpHidden, b.data(),
                         kHidden, 0, c.data(), kHidden);
  }
  SetRate(state, "flop", 2.0 * kMlpHidden * kMlpHidden * kHidden);
}
BENCHMARK(Sgemm)->Unit(benchmark::kMillisecond);

void RotationUpdate(benchmark::State& state) {
  Fixture fixture(OptimizerKind::kBasisRotation);
  for (auto _ : state) fixture.Step(false);
  SetRate(state, "flop", RotationFlop());
}
BENCHMARK(RotationUpdate)
    ->Name("Rotation/update")
    ->Unit(benchmark::kMillisecond);

void RotationRefresh(benchmark::State& state) {
  Fixture fixture(OptimizerKind::kBasisRotation);
  for (auto _ : state) fixture.Step(true);
}
BENCHMARK(RotationRefresh)
    ->Name("Rotation/refresh")
    ->Unit(benchmark::kMillisecond);

void RotationPeriod10(benchmark::State& state) {
  Fixture fixture(OptimizerKind::kBasisRotation);
  for (auto _ : state) {
    for (int t = 1; t <= 10; ++t) fixture.Step(t == 10);
  }
  state.counters["update_seconds"] =
      benchmark::Counter(10, benchmark::Counter::kIsIterationInvariantRate |
                                 benchmark::Counter::kInvert);
}
BENCHMARK(RotationPeriod10)
    ->Name("Rotation/period_10")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace gimbal::worker

int main(int argc, char** argv) {
  gimbal::compute::SetThreads(1);
  gimbal::compute::PrepareComputeThread();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
