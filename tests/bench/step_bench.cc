// Training steps of a GPT-2 style model (6 layers, hidden 384, 6 heads, context
// 256, vocabulary 256) on one thread, microbatch 8: forward, backward, AdamW.
//
//   step_bench [STEPS]
//
// Each step is followed by the step's GEMMs alone, so that both see the same
// machine. Prints the medians: tokens per second, and the share of the step
// that its GEMMs would take by themselves.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/compute/attention.h"
#include "worker/compute/gemm.h"
#include "worker/compute/runtime.h"
#include "worker/model/stage.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {
namespace {

using compute::AlignedBuffer;
using compute::Trans;

constexpr StageSpec kSpec = {.model = {.layers = 6,
                                       .hidden = 384,
                                       .heads = 6,
                                       .context = 256,
                                       .vocab = 256,
                                       .mlp_hidden = 4 * 384},
                             .blocks = 6,
                             .first = true,
                             .last = true,
                             .microbatch = 8};
constexpr int64_t kRows = 8 * 256;

// Time that this thread ran, not the wall clock: other processes on the cores
// would be measured as well.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct GemmShape {
  Trans trans_a, trans_b;
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  float beta;
  int64_t count;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k) * static_cast<double>(count);
  }
};

void AddLinear(int64_t in, int64_t out, float beta, int64_t count,
               std::vector<GemmShape>* shapes) {
  using enum Trans;
  shapes->push_back(
      {kNo, kYes, kRows, out, in, in, in, out, beta, count});             // y
  shapes->push_back({kNo, kNo, kRows, in, out, out, in, in, 0, count});   // dx
  shapes->push_back({kYes, kNo, out, in, kRows, out, in, in, 1, count});  // dw
}

void AddAttention(std::vector<GemmShape>* shapes) {
  using enum Trans;
  const ModelSpec& model = kSpec.model;
  const int64_t c = model.hidden;
  const int64_t d = c / model.heads;
  const int64_t count = int64_t{kSpec.microbatch} * model.heads * model.layers;
  for (int64_t row = 0; row < model.context;
       row += compute::kAttentionTileRows) {
    const int64_t rows =
        std::min<int64_t>(compute::kAttentionTileRows, model.context - row);
    const int64_t cols = row + rows;
    // Scores twice and dP; O and dQ; dK and dV.
    shapes->push_back(
        {kNo, kYes, rows, cols, d, 3 * c, 3 * c, cols, 0, 3 * count});
    shapes->push_back(
        {kNo, kNo, rows, d, cols, cols, 3 * c, 3 * c, 0, 2 * count});
    shapes->push_back(
        {kYes, kNo, cols, d, rows, cols, 3 * c, 3 * c, 1, 2 * count});
  }
}

std::vector<GemmShape> StepGemms() {
  const ModelSpec& model = kSpec.model;
  std::vector<GemmShape> shapes;
  AddLinear(model.hidden, 3 * model.hidden, 1, model.layers, &shapes);
  AddLinear(model.hidden, model.hidden, 1, model.layers, &shapes);
  AddLinear(model.hidden, model.mlp_hidden, 1, model.layers, &shapes);
  AddLinear(model.mlp_hidden, model.hidden, 1, model.layers, &shapes);
  AddLinear(model.hidden, model.vocab, 0, 1, &shapes);
  AddAttention(&shapes);
  return shapes;
}

// Time of each shape by itself, added up.
class GemmTimer {
 public:
  double Run() {
    double seconds = 0;
    for (const GemmShape& s : shapes_) {
      const double start = Seconds();
      for (int64_t i = 0; i < s.count; ++i) {
        compute::Gemm<float>(s.trans_a, s.trans_b, s.m, s.n, s.k, 1, a_.data(),
                             s.lda, b_.data(), s.ldb, s.beta, c_.data(), s.ldc);
      }
      seconds += Seconds() - start;
    }
    return seconds;
  }

  double flops() const {
    double flops = 0;
    for (const GemmShape& s : shapes_) flops += s.flops();
    return flops;
  }

 private:
  static constexpr int64_t kLargest = kRows * 4 * 384;
  std::vector<GemmShape> shapes_ = StepGemms();
  AlignedBuffer<float> a_{kLargest}, b_{kLargest}, c_{kLargest};
};

class Trainer {
 public:
  Trainer()
      : stage_(kSpec),
        weights_(stage_.table().size()),
        grads_(stage_.table().size()),
        slot_(stage_.NewSlot()),
        optimizer_(std::make_unique<Optimizer<float>>(OptimizerSpec{},
                                                      stage_.table())) {
    stage_.table().Initialize(1, 0.02, weights_.data());
    for (int64_t i = 0; i < kRows; ++i) {
      tokens_.push_back(static_cast<int32_t>(i * i % 251));
      targets_.push_back(static_cast<int32_t>((i + 1) * (i + 1) % 251));
    }
  }

  double Step() {
    const double start = Seconds();
    stage_.Forward(weights_.data(), {.tokens = tokens_, .targets = targets_},
                   slot_.get());
    std::fill_n(grads_.data(), grads_.size(), 0.0f);
    stage_.Backward(weights_.data(), nullptr, 1, slot_.get(), grads_.data(),
                    nullptr);
    optimizer_->Step({.update = ++update_, .lr = 1e-3}, weights_.data(),
                     grads_.data(), weights_.data());
    return Seconds() - start;
  }

  double loss() const { return stage_.loss(*slot_); }

 private:
  Stage<float> stage_;
  AlignedBuffer<float> weights_, grads_;
  Stage<float>::SlotPtr slot_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  std::vector<int32_t> tokens_, targets_;
  int64_t update_ = 0;
};

int Main(int steps) {
  compute::SetThreads(1);
  compute::PrepareComputeThread();
  std::printf("%s\n", compute::NumericsTag().c_str());
  Trainer trainer;
  GemmTimer gemms;
  trainer.Step();
  gemms.Run();
  std::vector<double> step, gemm, share;
  for (int i = 0; i < steps; ++i) {
    step.push_back(trainer.Step());
    gemm.push_back(gemms.Run());
    share.push_back(gemm.back() / step.back());
  }
  std::printf("step_ms %.1f (best %.1f)\n", 1e3 * Median(step),
              1e3 * std::ranges::min(step));
  std::printf("gemm_ms %.1f (best %.1f), %.1f GF/s\n", 1e3 * Median(gemm),
              1e3 * std::ranges::min(gemm),
              1e-9 * gemms.flops() / Median(gemm));
  std::printf("loss %.6f\n", trainer.loss());
  std::printf("tokens_per_second %.0f\n", kRows / Median(step));
  std::printf("gemm_share %.3f\n", Median(share));
  return 0;
}

}  // namespace
}  // namespace gimbal::worker

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  if (argc > 2 || steps < 1) {
    std::fprintf(stderr, "usage: step_bench [STEPS]\n");
    return 2;
  }
  return gimbal::worker::Main(steps);
}
