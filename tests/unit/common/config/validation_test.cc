#include "common/config/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/common/config/minimal_config.h"

namespace gimbal::config {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using testing::HasSubstr;
using testing::StartsWith;

struct Refused {
  std::vector<std::string> overrides;
  const char* message;
};

class RefusedTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedTest, NamesKeyAndReason) {
  EXPECT_THAT(
      Load(GetParam().overrides),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

const Refused kCases[] = {
    {{"model.heads=5"},
     "--set model.heads=5: model.heads: heads (5) must divide "
     "hidden (32)"},
    {{"batch.accumulate=100001"}, "at most 100000"},
    {{"model.kv_heads=2"}, "must be 0 or equal to heads (4)"},
    {{"model.tie_embeddings=true"}, "only false"},
    {{"pipeline.stages=5"},
     "5 stages need at least 5 layers, model.layers is 4"},
    {{"pipeline.stages=2", "pipeline.split=[2,3]"},
     "[2, 3] sums to 5, model.layers is 4"},
    {{"pipeline.stages=2", "pipeline.split=[1,2,1]"},
     "[1, 2, 1] has 3 entries, pipeline.stages is 2"},
    {{"pipeline.stages=2", "pipeline.split=[4,0]"}, "at least 1 layer"},
    {{"pipeline.stages=2", "pipeline.split=[5,-1]"}, "at least 1 layer"},
    {{"optimizer.betas=[0.9]"}, "exactly 2 numbers, found 1"},
    {{"optimizer.betas=[0.9,0.9,0.9]"}, "exactly 2 numbers"},
    {{"optimizer.schedule.warmup=101"},
     "101 updates of warm-up, but run.steps is 100"},
    {{"staleness.mitigation=[lr_discont]"}, "unknown mitigation 'lr_discont'"},
    {{"staleness.mitigation=[none,none]"}, "'none' is given twice"},
    {{"staleness.mitigation=[none,lr_linear]"}, "'none' excludes the others"},
    {{"staleness.mitigation=[lr_linear,lr_discount]"}, "choose one"},
    {{"staleness.mitigation=[weight_prediction,error_feedback]"},
     "the optimizer's own direction"},
    {{"staleness.mitigation=[weight_prediction,delay_compensation]"},
     "no delay left"},
    {{"staleness.mitigation=[discrepancy_correction]"},
     "needs pipeline.stash: none"},
    {{"staleness.mitigation=[weight_prediction]", "pipeline.stash=none"},
     "needs pipeline.stash: full"},
    {{"staleness.mitigation=[delay_compensation]", "pipeline.stash=none"},
     "needs pipeline.stash: full"},
    {{"staleness.mitigation=[beta1_by_delay]", "optimizer.name=muon"},
     "muon's matrices do not use"},
    {{"staleness.mitigation=[periodic_sync]", "pipeline.schedule=gpipe"},
     "needs pipeline.schedule: async-1f1b"},
    {{"pipeline.schedule=2bw", "pipeline.stages=4", "batch.accumulate=3"},
     "accumulate (3) >= stages (4)"},
    {{"pipeline.schedule=1f1b", "pipeline.stash=none"}, "is for async-1f1b"},
    {{"precision.compute=fp16"}, "is fp32 or bf16"},
    {{"precision.basis=bf16"}, "is fp32 or fp16"},
    {{"precision.wire=fp16"}, "bf16 takes as little room"},
    {{"precision.wire=tf32"}, "is fp32, bf16 or int8"},
    {{"precision.matmul=bf16"}, "is fp32 or tf32"},
    {{"precision.compute=bf16", "precision.matmul=tf32"}, "there are none"},
    {{"optimizer.rotation.policy=adaptive",
      "optimizer.rotation.adapt_every=99"},
     "measures nothing in 99 updates"},
    {{"optimizer.rotation.policy=stage_aware", "optimizer.rotation.period=101"},
     "the longest period (100) is below the mean one"},
    {{"data.tokenizer=bpe"}, "unknown tokenizer 'bpe'"},
    {{"data.format=text", "model.vocab=255"},
     "vocab must be at least 256, not 255"},
    {{"batch.microbatch=2147483647"},
     "microbatch * context must be at most 2147483647"},
    {{"cluster.listen=localhost"}, "expected HOST:PORT"},
    {{"cluster.listen=':80'"}, "expected HOST:PORT"},
    {{"cluster.metrics_listen=this-machine:0"},
     "expected the host as a number"},
    {{"cluster.metrics_listen=::1:0"}, "expected the host as a number"},
    {{"cluster.metrics_listen=0.0.0.0:65536"}, "expected HOST:PORT"}};
INSTANTIATE_TEST_SUITE_P(All, RefusedTest, testing::ValuesIn(kCases));

TEST(ValidationTest, NamesTheFileWhenTheKeyHasItsDefault) {
  EXPECT_THAT(
      ParseRunConfig("run: {steps: 5}\n"
                     "data: {train: x, format: text}\n"
                     "model: {layers: 1, hidden: 8, heads: 3, context: 4}\n",
                     "test.yaml", {}),
      StatusIs(StatusCode::kInvalidArgument,
               StartsWith("test.yaml:3: model.heads: ")));
  const std::vector<std::string> overrides = {"model.layers=1"};
  EXPECT_THAT(
      ParseRunConfig("run: {steps: 5}\ndata: {train: x, tokenizer: bpe}\n"
                     "model: {hidden: 8, heads: 2, context: 4}\n",
                     "test.yaml", overrides),
      StatusIs(StatusCode::kInvalidArgument,
               StartsWith("test.yaml:2: data.tokenizer: ")));
}

TEST(ValidationTest, AcceptsTheBorders) {
  EXPECT_THAT(Load({"pipeline.stages=4"}), IsOk());
  EXPECT_THAT(Load({"precision.compute=bf16"}), IsOk());
  EXPECT_THAT(Load({"precision.matmul=tf32"}), IsOk());
  EXPECT_THAT(Load({"pipeline.stages=2", "pipeline.split=[1,3]"}), IsOk());
  EXPECT_THAT(Load({"optimizer.schedule.warmup=100"}), IsOk());
  EXPECT_THAT(Load({"model.kv_heads=4"}), IsOk());
  EXPECT_THAT(Load({"pipeline.schedule=2bw", "pipeline.stages=4",
                    "batch.accumulate=4"}),
              IsOk());
  EXPECT_THAT(
      Load({"staleness.mitigation=[lr_linear,error_feedback,periodic_sync]",
            "optimizer.momentum=nesterov", "precision.basis=fp16"}),
      IsOk());
  EXPECT_THAT(Load({"staleness.mitigation=[discrepancy_correction]",
                    "pipeline.stash=none", "optimizer.name=adamw"}),
              IsOk());
  EXPECT_THAT(Load({"model.vocab=255", "data.format=tokens"}), IsOk());
  EXPECT_THAT(Load({"cluster.listen='[::1]:50051'"}), IsOk());
  // Whether others may connect is not the config's alone to say.
  EXPECT_THAT(Load({"cluster.listen=trainer-0.example.com:7000"}), IsOk());
  for (const char* host : {"localhost", "0.0.0.0", "'[::1]'"}) {
    std::string value = std::string(host) + ":0";
    if (host[0] == '\'') value = "'[::1]:0'";
    EXPECT_THAT(Load({"cluster.metrics_listen=" + value}), IsOk()) << value;
  }
}

}  // namespace
}  // namespace gimbal::config
