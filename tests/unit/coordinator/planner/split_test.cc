#include "coordinator/planner/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using test_support::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::RunConfig Config(int layers, int stages, int vocab = 256) {
  v1::RunConfig config;
  config.mutable_model()->set_layers(layers);
  config.mutable_model()->set_hidden(128);
  config.mutable_model()->set_context(128);
  config.mutable_model()->set_vocab(vocab);
  config.mutable_model()->set_mlp_ratio(4);
  config.mutable_pipeline()->set_stages(stages);
  return config;
}

TEST(SplitBlocks, HoldsEveryBlockOnceForEveryPair) {
  for (int layers = 1; layers <= 70; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const auto split = SplitBlocks(Config(layers, stages));
      ASSERT_TRUE(split.ok()) << split.status();
      EXPECT_EQ(static_cast<int>(split->size()), stages);
      EXPECT_EQ(std::accumulate(split->begin(), split->end(), 0), layers);
      const auto [low, high] =
          std::minmax_element(split->begin(), split->end());
      EXPECT_GE(*low, 1);
      EXPECT_LE(*high - *low, 1) << layers << " layers, " << stages;
    }
  }
}

TEST(SplitBlocks, SparesTheStageWithTheHead) {
  EXPECT_THAT(*SplitBlocks(Config(8, 4)), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(*SplitBlocks(Config(9, 4)), ElementsAre(2, 2, 3, 2));
  // A head of the size of two blocks and a half.
  EXPECT_THAT(*SplitBlocks(Config(9, 3, 4200)), ElementsAre(4, 4, 1));
}

TEST(SplitBlocks, TakesAGivenSplit) {
  auto config = Config(8, 3);
  for (int blocks : {1, 5, 2}) config.mutable_pipeline()->add_split(blocks);
  EXPECT_THAT(*SplitBlocks(config), ElementsAre(1, 5, 2));
}

TEST(SplitBlocks, RefusesWhatDoesNotCoverTheModel) {
  auto config = Config(8, 3);
  for (int blocks : {1, 5, 1}) config.mutable_pipeline()->add_split(blocks);
  EXPECT_THAT(SplitBlocks(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("[1,5,1] adds up to 7")));
  config.mutable_pipeline()->set_split(2, 2);
  config.mutable_pipeline()->set_stages(4);
  EXPECT_THAT(SplitBlocks(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("names 3 stages")));
  config.mutable_pipeline()->add_split(0);
  EXPECT_THAT(SplitBlocks(config), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("empty stage")));
  EXPECT_THAT(SplitBlocks(Config(3, 4)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("4 stages for model.layers = 3")));
}

}  // namespace
}  // namespace gimbal::coordinator
