#include "coordinator/ledger/refresh_count.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

v1::RunConfig Config(v1::OptimizerName name, int period) {
  v1::RunConfig config;
  config.mutable_optimizer()->set_name(name);
  config.mutable_optimizer()->mutable_rotation()->set_period(period);
  return config;
}

TEST(RefreshesDone, CountsWhatTheRuleSays) {
  for (const int period : {1, 2, 3, 7, 10}) {
    const v1::RunConfig config =
        Config(v1::OPTIMIZER_NAME_BASIS_ROTATION, period);
    EXPECT_EQ(RefreshesDone(config, 0), 0);
    int64_t expected = 0;
    for (int64_t update = 1; update <= 50; ++update) {
      expected += worker::RefreshDue(update, period) ? 1 : 0;
      EXPECT_EQ(RefreshesDone(config, update), expected)
          << "period " << period << ", update " << update;
    }
  }
}

TEST(RefreshesDone, IsNoneWithoutBases) {
  EXPECT_EQ(RefreshesDone(Config(v1::OPTIMIZER_NAME_ADAMW, 2), 9), 0);
}

}  // namespace
}  // namespace gimbal::coordinator
