#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/common/config/minimal_config.h"

namespace gimbal::config {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::HasSubstr;

void ExpectRoundTrip(const v1::RunConfig& config) {
  const std::string yaml = ToYaml(config);
  ASSERT_OK_AND_ASSIGN(const v1::RunConfig back,
                       ParseRunConfig(yaml, "yaml", {}));
  EXPECT_TRUE(MessageDifferencer::Equals(config, back)) << yaml;
  EXPECT_EQ(ToYaml(back), yaml);
}

TEST(ToYamlTest, ReadsBackToTheSameMessage) {
  ExpectRoundTrip(Load().value());
  ASSERT_OK_AND_ASSIGN(
      const v1::RunConfig config,
      Load({"run.seed=18446744073709551615", "run.steps=5000000000",
            "pipeline.stages=2", "pipeline.split=[1,3]",
            "pipeline.schedule=gpipe", "optimizer.lr=0.1000000000000000055",
            "optimizer.eps=4.9406564584124654e-324", "cluster.lease=1h0.25s",
            "optimizer.weight_decay=123456789012345680000",
            "model.activation=relu", "data.shuffle=false"}));
  ExpectRoundTrip(config);
}

TEST(ToYamlTest, QuotesTextsThatNeedIt) {
  for (const char* name : {"plain",
                           "",
                           " a ",
                           "true",
                           "null",
                           "~",
                           "12",
                           "1e3",
                           "[a]",
                           "{a: b}",
                           "a: b",
                           "a #b",
                           "- a",
                           "*a",
                           "&a",
                           "!a",
                           "%a",
                           "@a",
                           "'a'",
                           "\"a\"",
                           "a\\b",
                           "gr\xc3\xbc\xc3\x9f",
                           "\xf0\x9f\xa7\xad",
                           "auto",
                           "?",
                           "|",
                           "\xe2\x80\xa8",
                           "\xc2\x85",
                           "\xef\xbb\xbf",
                           "<<",
                           "---",
                           "..."}) {
    v1::RunConfig config = Load().value();
    config.mutable_run()->set_name(name);
    config.mutable_data()->set_train(std::string("x") + name);
    ExpectRoundTrip(config);
  }
}

TEST(ToYamlTest, WritesWhatPeopleWrite) {
  const std::string yaml = ToYaml(Load().value());
  for (const char* line :
       {"  schedule: async-1f1b\n", "  name: basis_rotation\n",
        "  activation: gelu_tanh\n", "  betas: [0.9, 0.999]\n",
        "  eps: 1.0e-08\n", "  split: auto\n", "  lease: 3s\n",
        "  valid: \"\"\n", "  mitigation: [none]\n"}) {
    EXPECT_THAT(yaml, HasSubstr(line));
  }
}

}  // namespace
}  // namespace gimbal::config
