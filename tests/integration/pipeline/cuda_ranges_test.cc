// The ranges of NVTX that a pipeline on CUDA opens, which the host layer
// counts.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/cuda_host/ranges.h"
#include "tests/support/local_pipeline.h"
#include "tests/support/status_matchers.h"
#include "worker/pipeline/cuda/cuda_engine.h"

namespace gimbal::test_support {
namespace {

TEST(CudaRanges, NameWhatStagesDoInTheTimelinesOfTools) {
  PipelineOptions options;
  options.schedule = {worker::ScheduleKind::kAsync1F1B, 2, 1};
  options.optimizer.kind = worker::OptimizerKind::kAdamW;
  options.engine = worker::MakeCudaEngine;
  options.updates = 5;
  cuda_host::TakeRanges();
  EXPECT_THAT(RunPipeline(options).status, IsOk());
  // The first stage hands its output over.
  EXPECT_EQ(
      cuda_host::TakeRanges(),
      (std::map<std::string, int64_t>{
          {"forward", 10}, {"send", 5}, {"backward", 10}, {"update", 10}}));
  EXPECT_EQ(cuda_host::OpenRanges(), 0);
}

}  // namespace
}  // namespace gimbal::test_support
