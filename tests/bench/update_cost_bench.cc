// Time per update of every form of basis rotation against AdamW: forward,
// backward and optimizer on one thread, 4,096 tokens per update.
//
//   update_cost_bench [UPDATES]
//
// The model has the proportions of the paper's 95M model (32 blocks, hidden
// 384, 6 heads, context 512, vocabulary 50,257): an eighth of its blocks with an
// eighth of its vocabulary. All optimizers see the same gradients in the same
// run, so that they see the same machine. Prints means over the updates, one in
// ten of which refreshes the bases; times are of the thread, not of the clock.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "worker/compute/aligned_buffer.h"
#include "worker/compute/runtime.h"
#include "worker/model/stage.h"
#include "worker/optim/optimizer.h"

namespace gimbal::worker {
namespace {

using compute::AlignedBuffer;

constexpr StageSpec kSpec = {.model = {.layers = 4,
                                       .hidden = 384,
                                       .heads = 6,
                                       .context = 512,
                                       .vocab = 50257 / 8,
                                       .mlp_hidden = 4 * 384},
                             .blocks = 4,
                             .first = true,
                             .last = true,
                             .microbatch = 8};
constexpr int64_t kRows = 8 * 512;
constexpr int64_t kPeriod = 10;

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Forward and backward of one model at its first weights.
class Model {
 public:
  Model()
      : stage_(kSpec),
        weights_(stage_.table().size()),
        grads_(stage_.table().size()),
        slot_(stage_.NewSlot()),
        tokens_(kRows),
        targets_(kRows) {
    stage_.table().Initialize(1, 0.02, weights_.data());
  }

  // The seconds it took.
  double Run(int64_t update) {
    for (int64_t i = 0; i < kRows; ++i) {
      tokens_[i] = static_cast<int32_t>((i + update) * i % 251);
      targets_[i] = static_cast<int32_t>((i + update + 1) * (i + 1) % 251);
    }
    const double start = Seconds();
    stage_.Forward(weights_.data(), {.tokens = tokens_, .targets = targets_},
                   slot_.get());
    std::fill_n(grads_.data(), grads_.size(), 0.0f);
    stage_.Backward(weights_.data(), nullptr, 1, slot_.get(), grads_.data(),
                    nullptr);
    return Seconds() - start;
  }

  const ParameterTable& table() const { return stage_.table(); }
  const float* grads() const { return grads_.data(); }

 private:
  Stage<float> stage_;
  AlignedBuffer<float> weights_, grads_;
  Stage<float>::SlotPtr slot_;
  std::vector<int32_t> tokens_, targets_;
};

class Method {
 public:
  Method(std::string name, const OptimizerSpec& spec,
         const ParameterTable& table)
      : name_(std::move(name)),
        weights_(table.size()),
        optimizer_(std::make_unique<Optimizer<float>>(spec, table)) {}

  void Step(int64_t update, const float* grads) {
    const bool refresh = update % kPeriod == 0;
    const double start = Seconds();
    optimizer_->Step({.update = update, .lr = 1e-3, .refresh = refresh},
                     weights_.data(), grads, weights_.data());
    // The cold start is no part of a long run's mean.
    if (update == 1) return;
    (refresh ? refresh_seconds_ : plain_seconds_) += Seconds() - start;
    ++(refresh ? refreshes_ : plains_);
  }

  const std::string& name() const { return name_; }
  double plain() const { return plain_seconds_ / plains_; }
  double refresh() const { return refresh_seconds_ / refreshes_; }
  double mean() const {
    return ((kPeriod - 1) * plain() + refresh()) / kPeriod;
  }

 private:
  std::string name_;
  AlignedBuffer<float> weights_;
  std::unique_ptr<Optimizer<float>> optimizer_;
  double plain_seconds_ = 0, refresh_seconds_ = 0;
  int plains_ = 0, refreshes_ = 0;
};

OptimizerSpec Rotation(RotationSource source, RotationGeometry geometry,
                       int max_dim) {
  OptimizerSpec spec{.kind = OptimizerKind::kBasisRotation};
  spec.rotation.source = source;
  spec.rotation.geometry = geometry;
  spec.rotation.max_dim = max_dim;
  return spec;
}

int Main(int updates) {
  compute::SetThreads(1);
  compute::PrepareComputeThread();
  std::printf("%s\n", compute::NumericsTag().c_str());
  Model model;
  using enum RotationSource;
  using enum RotationGeometry;
  std::vector<Method> methods;
  const auto add = [&](const char* name, const OptimizerSpec& spec) {
    methods.emplace_back(name, spec, model.table());
  };
  add("adamw", {.kind = OptimizerKind::kAdamW});
  add("rotation 2nd/bi", Rotation(kSecond, kBilateral, 0));
  add("rotation 1st/bi", Rotation(kFirst, kBilateral, 0));
  add("rotation 2nd/uni", Rotation(kSecond, kUnilateral, 0));
  add("rotation 1st/uni", Rotation(kFirst, kUnilateral, 0));
  add("rotation 2nd/bi, max_dim 384", Rotation(kSecond, kBilateral, 384));
  add("muon", {.kind = OptimizerKind::kMuon});
  model.Run(0);
  double model_seconds = 0;
  for (int64_t update = 1; update <= updates; ++update) {
    model_seconds += model.Run(update);
    for (Method& method : methods) method.Step(update, model.grads());
  }
  model_seconds /= updates;
  std::printf("forward and backward: %.1f ms\n", 1e3 * model_seconds);
  const double base = model_seconds + methods.front().mean();
  std::printf("| method | update ms | with refresh ms | of AdamW's time |\n");
  std::printf("|---|---|---|---|\n");
  for (const Method& method : methods) {
    std::printf("| %s | %.1f | %.1f | %.3f |\n", method.name().c_str(),
                1e3 * method.plain(), 1e3 * method.refresh(),
                (model_seconds + method.mean()) / base);
  }
  return 0;
}

}  // namespace
}  // namespace gimbal::worker

int main(int argc, char** argv) {
  const int updates = argc > 1 ? std::atoi(argv[1]) : 20;
  if (argc > 2 || updates < 11) {
    std::fprintf(stderr, "usage: update_cost_bench [UPDATES, at least 11]\n");
    return 2;
  }
  return gimbal::worker::Main(updates);
}
