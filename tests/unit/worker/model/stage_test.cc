#include "worker/model/stage.h"

#include <gtest/gtest.h>

#include "common/base/random.h"
#include "tests/support/gradcheck.h"
#include "tests/unit/worker/model/allocation_count.h"
#include "tests/unit/worker/model/stage_chain.h"
#include "worker/compute/aligned_buffer.h"

namespace gimbal::worker {
namespace {

using gimbal::testing::Dot;
using gimbal::testing::ExpectClose;
using gimbal::testing::ExpectGradient;
using gimbal::testing::RandomValues;

ModelSpec Small() {
  return {.layers = 4,
          .hidden = 12,
          .heads = 3,
          .context = 9,
          .vocab = 11,
          .mlp_hidden = 48,
          .head_bias = true};
}

std::vector<int32_t> RandomIds(int64_t n, int vocab, std::string_view name) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    ids[static_cast<size_t>(i)] = static_cast<int32_t>(
        base::RandomBits(3, base::StreamOf(name), static_cast<uint64_t>(i)) %
        static_cast<uint64_t>(vocab));
  }
  return ids;
}

struct GradientCase {
  Activation activation;
  bool qkv_bias;
  bool head_bias;
};

TEST(StageTest, WholeModelGradientMatchesFiniteDifferences) {
  for (const GradientCase& c :
       {GradientCase{Activation::kGeluTanh, true, false},
        GradientCase{Activation::kGeluErf, false, true},
        GradientCase{Activation::kRelu, true, true}}) {
    ModelSpec model = {.layers = 1,
                       .hidden = 6,
                       .heads = 2,
                       .context = 5,
                       .vocab = 7,
                       .mlp_hidden = 10,
                       .activation = c.activation,
                       .qkv_bias = c.qkv_bias,
                       .head_bias = c.head_bias};
    Stage<double> stage(StageOf(model, 2, 1, 0));
    std::vector<double> weights(stage.table().size());
    std::vector<double> grads(stage.table().size());
    stage.table().Initialize(5, 0.5, weights.data());
    const auto tokens = RandomIds(10, 7, "tokens");
    const auto targets = RandomIds(10, 7, "targets");
    auto slot = stage.NewSlot();
    const auto loss = [&] {
      stage.Forward(weights.data(), {.tokens = tokens, .targets = targets},
                    slot.get());
      return 3 * stage.loss(*slot);
    };
    loss();
    stage.Backward(weights.data(), nullptr, 3.0, slot.get(), grads.data(),
                   nullptr);
    // Padding included: it must have no effect and no gradient.
    ExpectGradient("grads", weights, grads, loss);
  }
}

TEST(StageTest, InputGradientOfAMiddleStage) {
  Stage<double> stage(StageOf(Small(), 2, 4, 1));
  std::vector<double> weights(stage.table().size());
  std::vector<double> grads(stage.table().size());
  stage.table().Initialize(5, 0.5, weights.data());
  auto input = RandomValues<double>(stage.boundary_size(), "input");
  const auto doutput = RandomValues<double>(stage.boundary_size(), "doutput");
  std::vector<double> dinput(input.size(), 99.0);
  auto slot = stage.NewSlot();
  const auto loss = [&] {
    stage.Forward(weights.data(), {.hidden = input.data()}, slot.get());
    const double* y = stage.output(*slot);
    return Dot(doutput, std::vector<double>(y, y + input.size()));
  };
  loss();
  stage.Backward(weights.data(), doutput.data(), 99.0, slot.get(), grads.data(),
                 dinput.data());
  ExpectGradient("dinput", input, dinput, loss);
}

TEST(StageTest, SplitIntoStagesChangesNoBit) {
  const auto tokens = RandomIds(4 * 9, 11, "tokens");
  const auto targets = RandomIds(4 * 9, 11, "targets");
  const auto whole = RunChain<float>(Small(), 4, 1, tokens, targets);
  EXPECT_GT(whole.loss, 0.1);
  for (const int stages : {2, 3, 4}) {
    const auto split = RunChain<float>(Small(), 4, stages, tokens, targets);
    EXPECT_EQ(split.loss, whole.loss) << stages;
    EXPECT_EQ(split.grads, whole.grads) << stages;
  }
}

TEST(StageTest, MicrobatchSplitsAgree) {
  const auto tokens = RandomIds(8 * 9, 11, "tokens");
  const auto targets = RandomIds(8 * 9, 11, "targets");
  const auto whole = RunChain<float>(Small(), 8, 1, tokens, targets);
  for (const int microbatch : {4, 2}) {
    const auto split = RunChain<float>(Small(), microbatch, 1, tokens, targets);
    EXPECT_NEAR(split.loss, whole.loss, 1e-6 * whole.loss);
    for (const auto& [name, grad] : whole.grads) {
      // The key bias has no effect on the loss: its gradient is rounding noise.
      if (name.ends_with("attn.k.bias")) continue;
      ExpectClose(name, split.grads.at(name), grad, 1e-6);
    }
  }
}

TEST(StageTest, SlotCanBeUsedAgainAndGradientsAreAddedTo) {
  Stage<float> stage(StageOf(Small(), 2, 1, 0));
  std::vector<float> weights(stage.table().size());
  stage.table().Initialize(5, 0.3, weights.data());
  const auto tokens = RandomIds(18, 11, "tokens");
  const auto targets = RandomIds(18, 11, "targets");
  auto slot = stage.NewSlot();
  std::vector<float> once(weights.size()), twice(weights.size());
  const auto run = [&](std::vector<float>* grads) {
    stage.Forward(weights.data(), {.tokens = tokens, .targets = targets},
                  slot.get());
    stage.Backward(weights.data(), nullptr, 1.0, slot.get(), grads->data(),
                   nullptr);
    return stage.loss(*slot);
  };
  const double loss = run(&once);
  EXPECT_EQ(run(&twice), loss);
  EXPECT_EQ(once, twice);
  run(&twice);
  std::vector<float> doubled = once;
  for (float& g : doubled) g *= 2;
  ExpectClose("sum", twice, doubled, 1e-6);
}

TEST(StageTest, SlotsInFlightDoNotDisturbEachOther) {
  Stage<float> stage(StageOf(Small(), 2, 1, 0));
  std::vector<float> weights(stage.table().size());
  stage.table().Initialize(5, 0.3, weights.data());
  const auto a = RandomIds(18, 11, "a"), b = RandomIds(18, 11, "b");
  auto slot_a = stage.NewSlot(), slot_b = stage.NewSlot();
  std::vector<float> alone(weights.size()), mixed(weights.size());
  stage.Forward(weights.data(), {.tokens = a, .targets = b}, slot_a.get());
  stage.Backward(weights.data(), nullptr, 1.0, slot_a.get(), alone.data(),
                 nullptr);
  stage.Forward(weights.data(), {.tokens = a, .targets = b}, slot_a.get());
  stage.Forward(weights.data(), {.tokens = b, .targets = a}, slot_b.get());
  stage.Backward(weights.data(), nullptr, 1.0, slot_a.get(), mixed.data(),
                 nullptr);
  EXPECT_EQ(alone, mixed);
}

TEST(StageTest, BytesAreWhatTheHeaderSays) {
  // All pieces are whole cache lines here: 64 rows, hidden 16.
  ModelSpec model = {.layers = 2,
                     .hidden = 16,
                     .heads = 4,
                     .context = 32,
                     .vocab = 48,
                     .mlp_hidden = 64};
  constexpr int64_t kRows = 64;
  const Stage<float> middle({.model = model, .blocks = 1, .microbatch = 2});
  const int64_t block = kRows * (10 * 16 + 4 + 4);
  EXPECT_EQ(middle.slot_bytes(), 4 * (block + kRows * 16));
  const Stage<float> whole(StageOf(model, 2, 1, 0));
  EXPECT_EQ(whole.slot_bytes(),
            4 * (2 * block + kRows * 16 + kRows * (3 + 48) + 2 * kRows));
  EXPECT_EQ(whole.scratch_bytes(),
            4 * (kRows * 64 + 2 * kRows * 16 + 2 * 32 * 32));
}

TEST(AllocationCountTest, SeesEveryKindOfAllocation) {
  const auto counts = [](auto allocate) {
    const int64_t before = AllocationCount();
    allocate();
    return AllocationCount() - before;
  };
  EXPECT_EQ(counts([] { ::operator delete(::operator new(8)); }), 1);
  EXPECT_EQ(counts([] {
              constexpr std::align_val_t kAlignment{256};
              ::operator delete(::operator new(8, kAlignment), kAlignment);
            }),
            1);
  EXPECT_EQ(counts([] { gimbal::compute::AlignedBuffer<float> buffer(8); }), 1);
}

TEST(StageTest, ForwardAndBackwardAllocateNothing) {
  Stage<float> stage(StageOf(Small(), 2, 1, 0));
  std::vector<float> weights(stage.table().size()), grads(weights.size());
  stage.table().Initialize(5, 0.3, weights.data());
  const auto tokens = RandomIds(18, 11, "tokens");
  auto slot = stage.NewSlot();
  const int64_t before = AllocationCount();
  EXPECT_GT(before, 0);
  stage.Forward(weights.data(), {.tokens = tokens, .targets = tokens},
                slot.get());
  stage.Backward(weights.data(), nullptr, 1.0, slot.get(), grads.data(),
                 nullptr);
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace gimbal::worker
