#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/common/config/minimal_config.h"

namespace gimbal::config {
namespace {

using testing::MatchesRegex;

std::string DigestOf(const std::vector<std::string>& overrides) {
  return ConfigDigest(Load(overrides).value());
}

TEST(ConfigDigestTest, IgnoresFormattingOrderAndSpelling) {
  ASSERT_OK_AND_ASSIGN(
      const v1::RunConfig other,
      ParseRunConfig("model:\n  context: 16  # tokens\n  heads: 4\n"
                     "  hidden: 32\n  layers: 4\n  activation: GELU-TANH\n"
                     "optimizer: {lr: 0.001, betas: [0.90, 0.999]}\n"
                     "data: {train: \"corpus\"}\n"
                     "run: {steps: 100}\neval:\n",
                     "other.yaml", {}));
  EXPECT_EQ(ConfigDigest(other), DigestOf({}));
  EXPECT_EQ(FirstDifference(other, Load().value()), "");
  EXPECT_THAT(DigestOf({}), MatchesRegex("[0-9a-f]{64}"));
}

TEST(ConfigDigestTest, IgnoresWhatCannotChangeNumbers) {
  EXPECT_EQ(DigestOf({"run.name=other", "checkpoint.every=7",
                      "cluster.lease=9s", "data.train=elsewhere"}),
            DigestOf({}));
}

TEST(ConfigDigestTest, ChangesWithEveryKeyThatCounts) {
  for (const char* override :
       {"run.seed=1", "run.steps=101", "optimizer.lr=0.0010000000000000002",
        "optimizer.betas=[0.9,0.99]", "pipeline.schedule=1f1b",
        "pipeline.stages=2", "model.qkv_bias=false", "cluster.threads=2",
        "optimizer.schedule.warmup=1", "eval.every=99"}) {
    EXPECT_NE(DigestOf({override}), DigestOf({})) << override;
  }
}

TEST(FirstDifferenceTest, NamesKeyAndBothValues) {
  const v1::RunConfig a = Load({"optimizer.lr=0.002", "run.name=a"}).value();
  const v1::RunConfig b = Load({"optimizer.clip=2", "run.name=b"}).value();
  EXPECT_EQ(FirstDifference(a, b), "optimizer.lr: 0.002 here, 0.001 there");
}

}  // namespace
}  // namespace gimbal::config
