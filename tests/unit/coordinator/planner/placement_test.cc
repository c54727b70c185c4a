#include "coordinator/planner/placement.h"

#include <gtest/gtest.h>

#include <map>

namespace gimbal::coordinator {
namespace {

TEST(PlanStages, NumbersStagesAndBlocks) {
  v1::RunConfig config;
  config.mutable_model()->set_layers(5);
  config.mutable_model()->set_hidden(16);
  config.mutable_model()->set_vocab(16);
  config.mutable_model()->set_mlp_ratio(4);
  config.mutable_pipeline()->set_stages(3);
  const auto placements = PlanStages(config);
  ASSERT_TRUE(placements.ok()) << placements.status();
  ASSERT_EQ(placements->size(), 3u);
  int next = 0;
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ((*placements)[stage].stage(), stage);
    EXPECT_EQ((*placements)[stage].first_block(), next);
    next += (*placements)[stage].blocks();
  }
  EXPECT_EQ(next, 5);
}

TEST(StagesOverWorkers, IsConsecutiveEvenAndComplete) {
  for (int stages = 1; stages <= 64; ++stages) {
    for (int workers = 1; workers <= stages; ++workers) {
      const auto worker_of = StagesOverWorkers(stages, workers);
      ASSERT_EQ(static_cast<int>(worker_of.size()), stages);
      std::map<int, int> hosted;
      for (int stage = 0; stage < stages; ++stage) {
        ++hosted[worker_of[stage]];
        if (stage > 0) {
          EXPECT_GE(worker_of[stage], worker_of[stage - 1]);
          EXPECT_LE(worker_of[stage], worker_of[stage - 1] + 1);
        }
      }
      EXPECT_EQ(static_cast<int>(hosted.size()), workers);
      for (const auto& [worker, count] : hosted) {
        EXPECT_GE(count, stages / workers);
        EXPECT_LE(count, (stages + workers - 1) / workers);
      }
    }
  }
}

}  // namespace
}  // namespace gimbal::coordinator
