// Stages that compute in bf16: close to fp32, and with the weights of the
// moment. That their numbers depend on nothing else is shown in
// cuda_engine_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/local_pipeline.h"
#include "tests/support/status_matchers.h"
#include "worker/pipeline/cuda/cuda_engine.h"
#include "worker/transport/cuda/link_memory.h"

namespace gimbal::test_support {
namespace {

using worker::StageEngine;

// Largest relative distance of a loss.
double DistanceToFp32(PipelineOptions options) {
  options.optimizer.kind = worker::OptimizerKind::kAdamW;
  options.engine = worker::MakeCudaEngine;
  options.links = {.tensors = &worker::CudaLinkMemory(),
                   .host = &worker::PinnedMemory()};
  options.updates = 25;
  options.lr = {.peak = 2e-3, .warmup = 3, .steps = 25};
  const PipelineResult fp32 = RunPipeline(options);
  options.model.bf16 = true;
  const PipelineResult bf16 = RunPipeline(options);
  EXPECT_THAT(fp32.status, IsOk());
  EXPECT_THAT(bf16.status, IsOk());
  EXPECT_EQ(bf16.losses.size(), 25u);
  double distance = 0;
  for (const auto& [update, loss] : fp32.losses) {
    distance =
        std::max(distance, std::abs(bf16.losses.at(update) - loss) / loss);
  }
  testing::Test::RecordProperty("distance", std::to_string(distance));
  return distance;
}

TEST(CudaBf16, HasLossesCloseToThoseOfFp32) {
  PipelineOptions options;
  options.schedule = {worker::ScheduleKind::kAsync1F1B, 4, 1};
  const double distance = DistanceToFp32(options);
  EXPECT_LE(distance, 0.01);
  EXPECT_GT(distance, 1e-5) << "that is fp32";
  options.schedule = {worker::ScheduleKind::kGPipe, 1, 2};
  options.model.hidden = 10;  // heads of 5, rows in no packs
  options.model.qkv_bias = false;
  options.model.head_bias = true;
  EXPECT_LE(DistanceToFp32(options), 0.01);
}

// The whole model as one stage, with what it takes to write weights in every
// way that there is.
class CudaBf16Weights : public testing::Test {
 protected:
  CudaBf16Weights() {
    spec_.stage = SplitEvenly(options_.model, 1, 2)[0];
    spec_.stage.model.bf16 = true;
    spec_.update = {.optimizer = {.kind = worker::OptimizerKind::kAdamW},
                    .lr = {.peak = 0.1, .steps = 10},
                    .mitigation = {.discrepancy_decay = 0.1},
                    .delay = 2};
    engine_ = worker::MakeCudaEngine(spec_);
    engine_->MakeSlots(1);
    table_ = worker::ParameterTable::ForStage(spec_.stage);
    first_ = engine_->AllocateWeights(2 * table_.size());
    second_ = first_ + table_.size();
    other_ = engine_->AllocateWeights(table_.size());
    grads_ = engine_->Allocate(table_.size());
    for (int i = 0; i < 2 * options_.model.context; ++i) {
      tokens_.push_back(i * 7 % options_.model.vocab);
    }
    std::vector<float> weights(static_cast<size_t>(table_.size()));
    table_.Initialize(1, 0.3, weights.data());
    engine_->Write(weights.data(), table_.size(), first_);
  }

  double LossIn(StageEngine& engine, const float* weights) {
    engine.Forward(weights, {.tokens = tokens_, .targets = tokens_}, 0);
    return engine.Loss(0);
  }
  double Loss(const float* weights) { return LossIn(*engine_, weights); }
  // That of an engine that has seen no other weights.
  double ExpectedLoss(const float* weights) {
    std::vector<float> values(static_cast<size_t>(table_.size()));
    engine_->Read(weights, table_.size(), values.data());
    const auto fresh = worker::MakeCudaEngine(spec_);
    fresh->MakeSlots(1);
    float* const arena = fresh->AllocateWeights(table_.size());
    fresh->Write(values.data(), table_.size(), arena);
    return LossIn(*fresh, arena);
  }
  // Was with other weights before.
  void ExpectCurrent(const float* weights, double before, const char* after) {
    const double loss = Loss(weights);
    EXPECT_EQ(loss, ExpectedLoss(weights)) << after;
    EXPECT_NE(loss, before) << after;
  }

  const PipelineOptions options_;
  worker::StageEngineSpec spec_;
  std::unique_ptr<StageEngine> engine_;
  worker::ParameterTable table_;
  float* first_ = nullptr;
  float* second_ = nullptr;
  float* other_ = nullptr;
  float* grads_ = nullptr;
  std::vector<int32_t> tokens_;
};

TEST_F(CudaBf16Weights, AreThoseThatWereWrittenLast) {
  const double zeros = Loss(second_);
  double before = Loss(first_);
  engine_->Copy(first_, table_.size(), second_);
  ExpectCurrent(second_, zeros, "Copy");
  engine_->Backward(first_, nullptr, 1, 0, grads_, nullptr);
  engine_->Apply({.update = 1,
                  .old_weights = first_,
                  .new_weights = second_,
                  .grads = grads_});
  ExpectCurrent(second_, before, "Apply");
  before = Loss(other_);
  engine_->FillBackwardWeights(second_, other_);
  ExpectCurrent(other_, before, "FillBackwardWeights");
  before = Loss(second_);
  const worker::Param& p = table_.at("h.1.mlp.fc.weight");
  const std::vector<float> values(static_cast<size_t>(p.size()), 0.5f);
  engine_->Write(values.data(), p.size(), second_ + p.offset);
  ExpectCurrent(second_, before, "Write");
  before = Loss(second_);
  engine_->Zero(p.size(), second_ + p.offset);
  ExpectCurrent(second_, before, "Zero");
  EXPECT_EQ(Loss(first_), ExpectedLoss(first_));
}

TEST_F(CudaBf16Weights, ThatAreUpdatedInPlaceAreTheNewOnes) {
  spec_.update.mitigation = {.weight_prediction = true};
  engine_ = worker::MakeCudaEngine(spec_);
  engine_->MakeSlots(1);
  first_ = engine_->AllocateWeights(table_.size());
  other_ = engine_->AllocateWeights(table_.size());
  grads_ = engine_->Allocate(table_.size());
  std::vector<float> weights(static_cast<size_t>(table_.size()));
  table_.Initialize(1, 0.3, weights.data());
  engine_->Write(weights.data(), table_.size(), first_);
  const double zeros = Loss(other_);
  const double before = Loss(first_);
  engine_->Backward(first_, nullptr, 1, 0, grads_, nullptr);
  engine_->Apply({.update = 1,
                  .old_weights = first_,
                  .new_weights = first_,
                  .grads = grads_,
                  .predicted = other_});
  ExpectCurrent(first_, before, "Apply in place");
  ExpectCurrent(other_, zeros, "a prediction");
}

}  // namespace
}  // namespace gimbal::test_support
