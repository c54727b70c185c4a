#include "common/config/size_limits.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/common/config/minimal_config.h"

namespace gimbal::config {
namespace {

// The key that the first broken limit blames, "" when all hold.
std::string Blamed(const std::function<void(v1::RunConfig&)>& change) {
  v1::RunConfig config = Load().value();
  change(config);
  const auto broken = FindBrokenLimit(config);
  return broken ? broken->path : "";
}

TEST(SizeLimitsTest, HoldsForModelsOfToday) {
  EXPECT_EQ(Blamed([](v1::RunConfig& c) {
              c.mutable_run()->set_steps(10'000'000);
              c.mutable_model()->set_hidden(16384);
              c.mutable_model()->set_heads(128);
              c.mutable_model()->set_context(8192);
              c.mutable_model()->set_vocab(262144);
              c.mutable_batch()->set_microbatch(16);
              c.mutable_batch()->set_accumulate(1024);
            }),
            "");
}

TEST(SizeLimitsTest, BlamesTheKey) {
  EXPECT_EQ(Blamed([](v1::RunConfig& c) {
              c.mutable_model()->set_hidden(INT32_MAX);
            }),
            "model.hidden");
  EXPECT_EQ(Blamed([](v1::RunConfig& c) {
              c.mutable_model()->set_mlp_ratio(INT32_MAX);
            }),
            "model.mlp_ratio");
  EXPECT_EQ(Blamed([](v1::RunConfig& c) {
              c.mutable_batch()->set_microbatch(INT32_MAX);
            }),
            "batch.microbatch");
  EXPECT_EQ(Blamed([](v1::RunConfig& c) {
              c.mutable_model()->set_context(10'000'000);
            }),
            "model.context");
  EXPECT_EQ(
      Blamed([](v1::RunConfig& c) { c.mutable_run()->set_steps(INT64_MAX); }),
      "run.steps");
}

TEST(SizeLimitsTest, IsExactAtTheBorder) {
  const auto rows = [](int32_t microbatch) {
    return Blamed([microbatch](v1::RunConfig& c) {
      c.mutable_model()->set_context(1);
      c.mutable_model()->set_hidden(4);
      c.mutable_model()->set_mlp_ratio(1);
      c.mutable_batch()->set_microbatch(microbatch);
      c.mutable_model()->set_vocab(2);
    });
  };
  EXPECT_EQ(rows(INT32_MAX), "");
  EXPECT_EQ(Blamed([](v1::RunConfig& c) {
              c.mutable_model()->set_hidden(4);
              c.mutable_model()->set_mlp_ratio(1);
              c.mutable_model()->set_vocab(2);
              c.mutable_model()->set_context(2);
              c.mutable_batch()->set_microbatch(1 << 30);
            }),
            "batch.microbatch");
}

}  // namespace
}  // namespace gimbal::config
