#include "common/config/run_config_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/common/config/minimal_config.h"

namespace gimbal::config {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(RunConfigIoTest, FillsInEveryDefault) {
  ASSERT_OK_AND_ASSIGN(const v1::RunConfig config, Load());
  EXPECT_EQ(config.run().name(), "run");
  EXPECT_EQ(config.run().seed(), 1337);
  EXPECT_EQ(config.run().steps(), 100);
  EXPECT_EQ(config.data().format(), v1::DATA_FORMAT_TOKENS);
  EXPECT_TRUE(config.data().shuffle());
  EXPECT_EQ(config.model().vocab(), 256);
  EXPECT_EQ(config.pipeline().schedule(), v1::SCHEDULE_KIND_ASYNC_1F1B);
  EXPECT_TRUE(config.pipeline().split().empty());
  EXPECT_THAT(config.optimizer().betas(), ElementsAre(0.9, 0.999));
  EXPECT_EQ(config.optimizer().schedule().kind(), v1::LR_SCHEDULE_KIND_COSINE);
  EXPECT_EQ(config.optimizer().rotation().period(), 10);
  EXPECT_THAT(config.staleness().mitigation(), ElementsAre("none"));
  EXPECT_EQ(config.guards().nan(), v1::GUARD_POLICY_STOP);
  EXPECT_EQ(config.cluster().lease().seconds(), 3);
}

TEST(RunConfigIoTest, OverridesInOrder) {
  ASSERT_OK_AND_ASSIGN(
      const v1::RunConfig config,
      Load({"run.steps=7", "run.steps=8", "optimizer.betas=[0.8, 0.9]",
            "data.valid=a=b", "run.name="}));
  EXPECT_EQ(config.run().steps(), 8);
  EXPECT_THAT(config.optimizer().betas(), ElementsAre(0.8, 0.9));
  EXPECT_EQ(config.data().valid(), "a=b");
  EXPECT_EQ(config.run().name(), "");
}

TEST(RunConfigIoTest, AnOverrideCanGiveARequiredKey) {
  const std::vector<std::string> overrides = {"run.steps=3"};
  EXPECT_THAT(ParseRunConfig("data: {train: x}\nmodel: {layers: 1, hidden: 8, "
                             "heads: 2, context: 4}\n",
                             "test.yaml", overrides),
              IsOk());
}

struct BadYaml {
  const char* yaml;
  const char* message;  // start of it
};

class BadYamlTest : public testing::TestWithParam<BadYaml> {};

TEST_P(BadYamlTest, NamesFileLineAndKey) {
  EXPECT_THAT(
      ParseRunConfig(GetParam().yaml, "kjv.yaml", {}),
      StatusIs(StatusCode::kInvalidArgument, StartsWith(GetParam().message)));
}

const BadYaml kCases[] = {
    {"", "kjv.yaml: run.steps: missing; expected an integer, at"},
    {"# nothing\n", "kjv.yaml: run.steps: missing"},
    {"run: {steps: 1}\n", "kjv.yaml: data.train: missing"},
    {"run:\n  steps: 1\n\noptimizer:\n  lrr: 1\n",
     "kjv.yaml:5: optimizer.lrr: unknown key; did you mean "
     "optimizer.lr?"},
    {"steps: 1\n",
     "kjv.yaml:1: steps: unknown key; this key stands elsewhere; "
     "did you mean run.steps?"},
    {"run:\n  steps: 1\n  steps: 2\n",
     "kjv.yaml:3: run.steps: this key stands here twice"},
    {"run: {steps: 1}\ndata: {train: x}\nrun: {seed: 2}\n",
     "kjv.yaml:3: run: this key stands here twice"},
    {"run:\n  - steps\n", "kjv.yaml:2: run: found a list, expected a section"},
    {"run: 5\n", "kjv.yaml:1: run: found '5', expected a section"},
    {"- run\n", "kjv.yaml:1: config: found a list, expected a"},
    {"run:\n  steps:\n",
     "kjv.yaml:2: run.steps: found nothing, expected an integer"},
    {"run:\n  steps: null\n", "kjv.yaml:2: run.steps: found nothing"},
    {"run:\n  [a]: 1\n", "kjv.yaml:2: run: a key must be a plain"},
    {"run:\n  steps: {a\n", "kjv.yaml:3: not valid YAML: "},
    {"run: {steps: 1}\nrun: [\n", "kjv.yaml:3: not valid YAML: "},
    {"run: *nope\n", "kjv.yaml:1: not valid YAML: "},
    {"a: 1\n---\nb: 2\n", "kjv.yaml: several YAML documents, expected"},
    // Found by a fuzzer: as a stream of documents it never ended.
    {"!a, b\n", "kjv.yaml: several YAML documents, expected"},
    {"optimizer:\n  schedule: cosine\n",
     "kjv.yaml:2: optimizer.schedule: found 'cosine', expected a "
     "section"}};
INSTANTIATE_TEST_SUITE_P(All, BadYamlTest, testing::ValuesIn(kCases));

TEST(RunConfigIoTest, NamesTheBadOverride) {
  const auto expect = [](const char* override, const char* message) {
    EXPECT_THAT(Load({override}),
                StatusIs(StatusCode::kInvalidArgument, StartsWith(message)));
  };
  expect("optimizer.lrr=1",
         "--set optimizer.lrr=1: optimizer.lrr: unknown key; did you mean");
  expect("run.steps=1.5", "--set run.steps=1.5: run.steps: found '1.5'");
  expect("run.steps=", "--set run.steps=: run.steps: found the text \"\"");
  expect("run.steps", "--set run.steps: expected KEY=VALUE");
  expect("=3", "--set =3: : unknown key");
  expect("optimizer=3",
         "--set optimizer=3: optimizer: unknown key; this is a section");
  expect("run.name={a", "--set run.name={a:1: not valid YAML");
}

TEST(RunConfigIoTest, AnEmptySectionHasItsDefaults) {
  EXPECT_THAT(ParseRunConfig(std::string(kMinimalYaml) + "eval:\noptimizer: {}",
                             "test.yaml", {}),
              IsOk());
}

TEST(RunConfigIoTest, SurvivesHostileText) {
  EXPECT_FALSE(ParseRunConfig(std::string(100'000, '['), "x", {}).ok());
  EXPECT_FALSE(ParseRunConfig(std::string(100'000, '{'), "x", {}).ok());
  EXPECT_FALSE(ParseRunConfig("a: &a [*a]", "x", {}).ok());
  EXPECT_FALSE(ParseRunConfig(std::string("\0\xff\xfe", 3), "x", {}).ok());
}

TEST(RunConfigIoTest, LoadsFiles) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "run.yaml", kMinimalYaml), IsOk());
  EXPECT_THAT(LoadRunConfig(dir / "run.yaml", {}), IsOk());
  EXPECT_THAT(LoadRunConfig(dir / "none.yaml", {}),
              StatusIs(StatusCode::kNotFound, HasSubstr("none.yaml")));
  EXPECT_THAT(LoadRunConfig(dir.path(), {}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(dir.path()), HasSubstr("directory"))));
}

}  // namespace
}  // namespace gimbal::config
