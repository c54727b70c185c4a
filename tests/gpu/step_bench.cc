#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "common/base/random.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/random_values.h"
#include "worker/compute/cuda/check.h"
#include "worker/pipeline/cuda/cuda_engine.h"

namespace gimbal::gpu {
namespace {

using worker::ModelSpec;
using worker::OptimizerKind;

constexpr int64_t kTokensPerUpdate = 1 << 19;  // of the comparison of rules
constexpr int kRefreshPeriod = 10;             // the config's default

ModelSpec Tiny(ModelSpec model) {
  return {.layers = std::min(model.layers, 2),
          .hidden = 16,
          .heads = 2,
          .context = 8,
          .vocab = 32,
          .mlp_hidden = 64,
          .bf16 = model.bf16};
}

// Of forward and backward, per token: 6 per weight of a product, and 6 context
// hidden per layer for attention, of which the half above the diagonal is not
// counted. Embeddings, norms and what is computed again do not count.
double FlopsPerToken(const worker::ParameterTable& table, const ModelSpec& m) {
  double flops = 6.0 * m.layers * m.hidden * m.context;
  for (const worker::Param& p : table.params()) {
    const bool product = p.group == worker::ParamGroup::kMatrix ||
                         p.group == worker::ParamGroup::kHead;
    if (product) flops += 6 * static_cast<double>(p.size());
  }
  return flops;
}

// Seconds until the device is done with what `enqueue` gives it.
template <typename F>
double SecondsOf(const F& enqueue) {
  GIMBAL_CUDA_CHECK(cudaDeviceSynchronize());
  const auto start = std::chrono::steady_clock::now();
  enqueue();
  GIMBAL_CUDA_CHECK(cudaDeviceSynchronize());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

struct Phases {
  double forward = 0, backward = 0, update = 0;
  double sum() const { return forward + backward + update; }
  Phases& operator+=(const Phases& other) {
    forward += other.forward;
    backward += other.backward;
    update += other.update;
    return *this;
  }
  Phases& operator/=(double n) {
    forward /= n;
    backward /= n;
    update /= n;
    return *this;
  }
};

// The whole model as one stage, on random tokens.
class Trainer {
 public:
  Trainer(const ModelSpec& model, OptimizerKind kind, int microbatch,
          int accumulate)
      : spec_{.model = model,
              .blocks = model.layers,
              .first = true,
              .last = true,
              .microbatch = microbatch},
        accumulate_(accumulate),
        table_(worker::ParameterTable::ForStage(spec_)),
        engine_(worker::MakeCudaEngine(
            {spec_,
             {.optimizer = {.kind = kind},
              .lr = {.kind = worker::LrKind::kConstant, .peak = 1e-4},
              .clip = 1}})),
        weights_(engine_->AllocateWeights(table_.size())),
        grads_(engine_->Allocate(table_.size())) {
    engine_->MakeSlots(1);
    const std::vector<float> values = Weights();
    engine_->Write(values.data(), table_.size(), weights_);
    for (int64_t i = 0; i < int64_t{microbatch} * model.context; ++i) {
      tokens_.push_back(static_cast<int32_t>(
          base::RandomBits(2, 0, static_cast<uint64_t>(i)) %
          static_cast<uint64_t>(model.vocab)));
    }
  }

  int64_t tokens() const {
    return static_cast<int64_t>(tokens_.size()) * accumulate_;
  }
  double flops_per_token() const { return FlopsPerToken(table_, spec_.model); }
  bool bf16() const { return spec_.model.bf16; }
  double loss() const { return loss_; }

  Phases Step() {
    Phases phases;
    engine_->Zero(table_.size(), grads_);
    for (int i = 0; i < accumulate_; ++i) {
      phases.forward += SecondsOf([&] {
        engine_->Forward(weights_, {.tokens = tokens_, .targets = tokens_}, 0);
        loss_ = engine_->Loss(0);
      });
      phases.backward += SecondsOf([&] {
        engine_->Backward(weights_, nullptr, 1.0 / accumulate_, 0, grads_,
                          nullptr);
      });
    }
    phases.update = SecondsOf([&] { Update(false); });
    return phases;
  }

  // What the runner of a stage does at an update.
  void Update(bool refresh) {
    double squares = 0;
    for (const double sum : engine_->LayerSquareSums(grads_)) squares += sum;
    engine_->Apply({.update = ++update_,
                    .square_sum = squares,
                    .refresh = refresh,
                    .old_weights = weights_,
                    .new_weights = weights_,
                    .grads = grads_});
    finite_ = finite_ && engine_->AllFinite(table_.size(), weights_);
  }
  bool finite() const { return finite_ && std::isfinite(loss_); }

 private:
  // As the table initializes them, only faster.
  std::vector<float> Weights() const {
    std::vector<float> values(static_cast<size_t>(table_.size()));
    const std::vector<float> stretch = RandomStretch(table_.size());
    const auto std = static_cast<float>(spec_.model.init_std);
    for (const worker::Param& p : table_.params()) {
      if (p.init == worker::ParamInit::kZero) continue;
      for (int64_t i = p.offset; i < p.offset + p.size(); ++i) {
        values[static_cast<size_t>(i)] =
            p.init == worker::ParamInit::kOne
                ? 1
                : std * stretch[static_cast<size_t>(i) % stretch.size()];
      }
    }
    return values;
  }

  const worker::StageSpec spec_;
  const int accumulate_;
  const worker::ParameterTable table_;
  const std::unique_ptr<worker::StageEngine> engine_;
  float* const weights_;
  float* const grads_;
  std::vector<int32_t> tokens_;
  int64_t update_ = 0;
  double loss_ = 0;
  bool finite_ = true;
};

// With the largest microbatch that the device has memory for.
std::unique_ptr<Trainer> MakeTrainer(const ModelSpec& model, OptimizerKind kind,
                                     int samples, int microbatch) {
  for (; microbatch >= 1; microbatch /= 2) {
    try {
      return std::make_unique<Trainer>(model, kind, microbatch,
                                       samples / microbatch);
    } catch (const std::bad_alloc&) {
      cudaGetLastError();  // it is dealt with
    }
  }
  return nullptr;
}

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void PrintStep(const char* name, const Trainer& trainer, const Device& device,
               const Phases& mean, int steps) {
  const double tokens = static_cast<double>(trainer.tokens());
  const double flops = tokens * trainer.flops_per_token() / mean.sum();
  const double peak =
      trainer.bf16() ? device.peak_bf16_flops : device.peak_flops;
  std::printf(
      "| %s | %s | %lld | %d | %.1f | %.0f | %.2f | %.1f%% | %.1f%% | %.1f%% | "
      "%.1f%% | %.3f |\n",
      name, trainer.bf16() ? "bf16" : "fp32",
      static_cast<long long>(trainer.tokens()), steps, 1e3 * mean.sum(),
      tokens / mean.sum(), 1e-12 * flops, peak > 0 ? 100 * flops / peak : 0.0,
      100 * mean.forward / mean.sum(), 100 * mean.backward / mean.sum(),
      100 * mean.update / mean.sum(), trainer.loss());
}

struct Measured {
  Phases mean;
  int64_t tokens = 0;
};

// Prints a row of the table of AdamW's steps; nothing when the model does not
// fit.
std::optional<Measured> MeasureSteps(const char* name, const ModelSpec& model,
                                     const Device& device,
                                     const BenchOptions& options) {
  const auto trainer = MakeTrainer(model, OptimizerKind::kAdamW,
                                   options.tiny ? 2 : 64, options.tiny ? 1 : 8);
  if (trainer == nullptr) return std::nullopt;
  trainer->Step();
  trainer->Step();  // records the graphs
  const double start = Now();
  const int most = options.tiny ? 2 : 10;
  Phases mean;
  int steps = 0;
  do {
    mean += trainer->Step();
    ++steps;
  } while (steps < most && Now() - start < options.seconds / 4);
  mean /= steps;
  PrintStep(name, *trainer, device, mean, steps);
  if (!trainer->finite()) return Measured{};
  return Measured{mean, trainer->tokens()};
}

// Mean of an update with rotation at the config's default period, which is
// printed; nothing after the deadline. Throws std::bad_alloc.
std::optional<double> RotatedUpdate(const ModelSpec& model, double deadline) {
  Trainer trainer(model, OptimizerKind::kBasisRotation, 1, 1);
  trainer.Step();        // gradients
  trainer.Update(true);  // chooses algorithms, takes memory
  if (Now() > deadline) {
    std::printf("\nRotation is left out: no time.\n");
    return std::nullopt;
  }
  const double plain = SecondsOf([&] { trainer.Update(false); });
  const double refresh = SecondsOf([&] { trainer.Update(true); });
  std::printf(
      "\nAn update with rotation takes %.2f ms, %.2f ms with a refresh.\n",
      1e3 * plain, 1e3 * refresh);
  return plain + (refresh - plain) / kRefreshPeriod;
}

// Prints what rotation takes, alone and beside AdamW.
void MeasureRotation(const ModelSpec& model, const Measured& adamw,
                     double deadline) {
  std::optional<double> rotated;
  try {
    rotated = RotatedUpdate(model, deadline);
  } catch (const std::bad_alloc&) {
    std::printf("\nRotation is left out: it does not fit into the memory.\n");
  }
  if (!rotated) return;
  const double passes = (adamw.mean.forward + adamw.mean.backward) *
                        static_cast<double>(kTokensPerUpdate) /
                        static_cast<double>(adamw.tokens);
  std::printf(
      "AdamW's takes %.2f ms. At %lld tokens per update and a refresh every %d "
      "updates, rotation takes %.3f of AdamW's time, forward and backward "
      "included.\n",
      1e3 * adamw.mean.update, static_cast<long long>(kTokensPerUpdate),
      kRefreshPeriod, (passes + *rotated) / (passes + adamw.mean.update));
}

}  // namespace

bool BenchStep(const char* name, const ModelSpec& full, const Device& device,
               const BenchOptions& options) {
  const double deadline = Now() + options.seconds;
  ModelSpec model = options.tiny ? Tiny(full) : full;
  std::printf(
      "| model | type | tokens | steps | ms | tokens/s | TFLOP/s | MFU | "
      "forward | backward | update | loss |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  std::optional<Measured> measured;  // in fp32
  for (const bool bf16 : {true, false}) {
    model.bf16 = bf16;
    measured = MeasureSteps(name, model, device, options);
    if (!measured) continue;
    if (measured->tokens == 0) {
      std::printf("\nFAILED: a loss or weights are not finite.\n");
      return false;
    }
  }
  if (!measured) {
    std::printf("\n%s in fp32 is left out: it does not fit into the memory.\n",
                name);
    return true;
  }
  if (options.rotation) MeasureRotation(model, *measured, deadline);
  return true;
}

}  // namespace gimbal::gpu
