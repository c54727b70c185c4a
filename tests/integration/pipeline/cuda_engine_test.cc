// A whole pipeline whose stages compute on CUDA: the CPU's losses, and one run,
// one sequence of numbers.
#include "worker/pipeline/cuda/cuda_engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/device_order.h"
#include "tests/support/local_pipeline.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/transport/cuda/link_memory.h"

namespace gimbal::test_support {
namespace {

using worker::OptimizerKind;
using worker::ScheduleKind;

PipelineOptions Options(ScheduleKind kind, int stages, int workers) {
  PipelineOptions options;
  options.schedule = {kind, stages, 1};
  options.optimizer.kind = OptimizerKind::kAdamW;
  options.engine = worker::MakeCudaEngine;
  options.links = {.tensors = &worker::CudaLinkMemory(),
                   .host = &worker::PinnedMemory()};
  options.workers = workers;
  return options;
}

PipelineResult RunWell(const PipelineOptions& options) {
  PipelineResult result = RunPipeline(options);
  EXPECT_THAT(result.status, IsOk());
  return result;
}

// Largest relative distance of the losses.
double Distance(const PipelineResult& a, const PipelineResult& b) {
  EXPECT_EQ(a.losses.size(), b.losses.size());
  double largest = 0;
  for (const auto& [update, loss] : a.losses) {
    const double other = b.losses.at(update);
    largest = std::max(largest, std::abs(loss - other) / other);
  }
  return largest;
}

void ExpectCpuLosses(PipelineOptions options, double tolerance) {
  const PipelineResult cuda = RunWell(options);
  options.engine = worker::MakeCpuEngine;
  options.links = {};
  const PipelineResult cpu = RunWell(options);
  const double distance = Distance(cuda, cpu);
  EXPECT_LE(distance, tolerance);
  testing::Test::RecordProperty("distance", std::to_string(distance));
  EXPECT_EQ(cuda.staleness, cpu.staleness);
  for (const auto& [update, loss] : cpu.evaluations) {
    EXPECT_NEAR(cuda.evaluations.at(update), loss, tolerance * loss);
  }
}

TEST(CudaEngine, HasTheCpusLossesForFiftyUpdates) {
  PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 4, 1);
  options.updates = 50;
  options.lr.steps = 50;
  options.cuts[25] = {.evaluate = true};
  ExpectCpuLosses(options, 1e-4);
}

TEST(CudaEngine, HasTheCpusLossesWithEveryRuleItHas) {
  for (const OptimizerKind kind :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    for (const bool nesterov : {false, true}) {
      PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 3, 1);
      options.schedule.accumulate = 2;
      options.optimizer.kind = kind;
      options.optimizer.nesterov = nesterov;
      options.optimizer.moment_reset = 5;
      options.mitigation = {.lr_discount_updates = 10,
                            .lr_linear = true,
                            .lr_matrix_factor = 0.5,
                            .beta1_by_delay = true};
      ExpectCpuLosses(options, 1e-4);
    }
  }
}

TEST(CudaEngine, HasTheCpusLossesWithAnyModel) {
  PipelineOptions options = Options(ScheduleKind::k1F1B, 2, 1);
  options.model.hidden = 10;  // heads of 5, rows in no packs
  options.model.activation = worker::Activation::kGeluErf;
  options.model.qkv_bias = false;
  options.model.head_bias = true;
  options.schedule.accumulate = 3;
  ExpectCpuLosses(options, 1e-4);
  options.model.activation = worker::Activation::kRelu;
  options.schedule = {ScheduleKind::kGPipe, 1, 2};
  ExpectCpuLosses(options, 1e-4);
}

// Square matrices: with a smaller side the first gradients leave a part of the
// larger one's basis open, which is then a matter of rounding.
TEST(CudaEngine, HasTheCpusLossesWithRotation) {
  for (const auto source :
       {worker::RotationSource::kSecond, worker::RotationSource::kFirst}) {
    PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 2, 1);
    options.model.layers = 2;
    options.model.mlp_hidden = options.model.hidden;
    options.updates = 8;
    options.optimizer.kind = OptimizerKind::kBasisRotation;
    options.optimizer.rotation.source = source;
    options.optimizer.eps = 1e-4;
    options.refresh_period = 3;
    ExpectCpuLosses(options, 1e-3);
  }
}

// A number between two whole ones may go to either on another device.
TEST(CudaEngine, HasTheCpusLossesWithEveryWire) {
  for (const auto& [wire, tolerance] :
       {std::pair(compute::WireFormat::kBf16, 1e-3),
        std::pair(compute::WireFormat::kInt8, 1e-2)}) {
    PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 4, 1);
    options.model.hidden = 10;  // rows in no packs
    options.wire = wire;
    ExpectCpuLosses(options, tolerance);
    const PipelineResult one = RunWell(options);
    options.workers = 4;
    EXPECT_TRUE(RunWell(options).SameNumbers(one));
  }
}

// What is computed in bf16 travels in bf16 as it is.
TEST(CudaEngine, TheWireOfBf16ChangesNoNumberOfBf16) {
  PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 4, 2);
  options.model.bf16 = true;
  const PipelineResult fp32 = RunWell(options);
  options.wire = compute::WireFormat::kBf16;
  EXPECT_TRUE(RunWell(options).SameNumbers(fp32));
  options.wire = compute::WireFormat::kInt8;
  const PipelineResult int8 = RunWell(options);
  EXPECT_FALSE(int8.SameNumbers(fp32));
  EXPECT_LE(Distance(int8, fp32), 0.05);
}

class CudaEngineIn : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Precisions, CudaEngineIn, testing::Bool(),
                         [](const auto& bf16) {
                           return bf16.param ? "Bf16" : "Fp32";
                         });

TEST_P(CudaEngineIn, OneWorkerAndFourHaveTheSameBits) {
  for (const auto& [kind, optimizer] :
       {std::pair(ScheduleKind::kAsync1F1B, OptimizerKind::kBasisRotation),
        std::pair(ScheduleKind::k1F1B, OptimizerKind::kMuon)}) {
    SetDeviceOrder(1);
    PipelineOptions options = Options(kind, 4, 1);
    options.model.bf16 = GetParam();
    options.optimizer.kind = optimizer;
    options.updates = 8;
    const PipelineResult one = RunWell(options);
    SetDeviceOrder(2);
    options.workers = 4;
    const PipelineResult four = RunWell(options);
    EXPECT_TRUE(one.SameNumbers(four));
  }
}

// Also from a snapshot of a run that keeps its state on the device.
TEST_P(CudaEngineIn, TheStateOnTheHostChangesNoNumber) {
  const TempDir folder;
  PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 4, 1);
  options.model.bf16 = GetParam();
  options.optimizer.kind = OptimizerKind::kBasisRotation;
  options.mitigation.weight_prediction = true;
  const PipelineResult device = RunWell(options);
  options.optimizer.offload = true;
  options.cuts[6] = {.snapshot = true};
  options.checkpoint_root = folder.path();
  for (const int workers : {1, 4}) {
    options.workers = workers;
    EXPECT_TRUE(RunWell(options).SameNumbers(device)) << workers;
  }
  options.cuts.clear();
  options.start = 6;
  for (const bool offload : {false, true}) {
    options.optimizer.offload = offload;
    EXPECT_EQ(RunWell(options).weights, device.weights) << offload;
  }
}

TEST_P(CudaEngineIn, GoesOnFromASnapshotWithTheSameBits) {
  for (const bool stash : {true, false}) {
    const TempDir folder;
    PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 4, 2);
    options.model.bf16 = GetParam();
    options.schedule.stash = stash;
    options.optimizer.kind = OptimizerKind::kBasisRotation;
    options.optimizer.rotation.half_basis = stash;
    options.mitigation.error_feedback = stash;
    const PipelineResult whole = RunWell(options);
    options.checkpoint_root = folder.path();
    options.fed_updates = 12;
    options.updates = 6;
    options.cuts[6] = {.snapshot = true};
    RunWell(options);
    options.cuts.clear();
    options.start = 6;
    options.updates = 12;
    options.fed_updates = 0;
    const PipelineResult rest = RunWell(options);
    EXPECT_EQ(rest.weights, whole.weights) << "stash " << stash;
    for (const auto& [update, loss] : rest.losses) {
      EXPECT_EQ(loss, whole.losses.at(update));
    }
  }
}

TEST(CudaEngine, ReportsWhatIsNotFinite) {
  PipelineOptions options = Options(ScheduleKind::kAsync1F1B, 2, 1);
  options.poisoned_update = 5;
  options.poisoned_stage = 1;
  int64_t first = 0;
  options.on_update = [&](const worker::UpdateReport& report) {
    if (!report.weights_finite && first == 0) first = report.update;
  };
  RunWell(options);
  EXPECT_EQ(first, 5);
}

}  // namespace
}  // namespace gimbal::test_support
