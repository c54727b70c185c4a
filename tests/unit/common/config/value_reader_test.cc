#include "common/config/value_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "tests/support/status_matchers.h"

namespace gimbal::config {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

absl::Status Set(v1::RunConfig& config, const char* path, const char* yaml) {
  return SetValue(config, *FindKey(path), YAML::Load(yaml));
}

TEST(ValueReaderTest, SetsEveryKindOfField) {
  v1::RunConfig c;
  EXPECT_THAT(Set(c, "model.layers", "12"), IsOk());
  EXPECT_THAT(Set(c, "run.steps", "5000000000"), IsOk());
  EXPECT_THAT(Set(c, "run.seed", "18446744073709551615"), IsOk());
  EXPECT_THAT(Set(c, "run.name", "2024"), IsOk());
  EXPECT_THAT(Set(c, "optimizer.lr", "3"), IsOk());
  EXPECT_THAT(Set(c, "model.qkv_bias", "true"), IsOk());
  EXPECT_THAT(Set(c, "pipeline.schedule", "Async_1F1B"), IsOk());
  EXPECT_THAT(Set(c, "cluster.lease", "1.5s"), IsOk());
  EXPECT_EQ(c.model().layers(), 12);
  EXPECT_EQ(c.run().steps(), 5'000'000'000);
  EXPECT_EQ(c.run().seed(), UINT64_MAX);
  EXPECT_EQ(c.run().name(), "2024");
  EXPECT_EQ(c.optimizer().lr(), 3.0);
  EXPECT_TRUE(c.model().qkv_bias());
  EXPECT_EQ(c.pipeline().schedule(), v1::SCHEDULE_KIND_ASYNC_1F1B);
  EXPECT_EQ(c.cluster().lease().seconds(), 1);
  EXPECT_EQ(c.cluster().lease().nanos(), 500'000'000);
}

TEST(ValueReaderTest, ReplacesLists) {
  v1::RunConfig c;
  EXPECT_THAT(Set(c, "pipeline.split", "[2, 2]"), IsOk());
  EXPECT_THAT(Set(c, "pipeline.split", "[1, 3]"), IsOk());
  EXPECT_THAT(c.pipeline().split(), ElementsAre(1, 3));
  EXPECT_THAT(Set(c, "pipeline.split", "auto"), IsOk());
  EXPECT_TRUE(c.pipeline().split().empty());
  EXPECT_THAT(Set(c, "optimizer.betas", "[0.9, 0.95]"), IsOk());
  EXPECT_THAT(c.optimizer().betas(), ElementsAre(0.9, 0.95));
}

struct BadValue {
  const char* path;
  const char* yaml;
  const char* message;
};

class BadValueTest : public testing::TestWithParam<BadValue> {};

TEST_P(BadValueTest, SaysWhatWasFoundAndExpected) {
  v1::RunConfig config;
  EXPECT_THAT(
      Set(config, GetParam().path, GetParam().yaml),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().message)));
}

const BadValue kCases[] = {
    {"model.layers", "1.5",
     "found '1.5', expected an integer, at least 1 (number of "
     "transformer blocks)"},
    {"model.layers", "'12'", "found the text \"12\", expected an"},
    {"model.layers", "0", "found '0', expected an integer, at"},
    {"model.layers", "4294967297", "found '4294967297'"},
    {"model.layers", "", "found nothing"},
    {"model.layers", "~", "found nothing"},
    {"model.layers", "[1]", "found a list"},
    {"model.layers", "{a: 1}", "found a section"},
    {"run.seed", "-1", "found '-1', expected an integer"},
    {"optimizer.lr", "0", "expected a number, above 0"},
    {"optimizer.lr", ".nan", "found '.nan'"},
    {"optimizer.lr", "inf", "found 'inf'"},
    {"optimizer.lr", "abc", "found 'abc'"},
    {"optimizer.schedule.min_ratio", "1.01", "from 0 to 1"},
    {"cluster.spares", "-1", "expected an integer, at least 0"},
    {"model.qkv_bias", "yes", "expected true or false"},
    {"model.qkv_bias", "'true'", "found the text \"true\""},
    {"pipeline.schedule", "3bw",
     "found '3bw', expected one of async-1f1b, 1f1b, gpipe, 2bw"},
    {"checkpoint.stash", "none", "expected only full (full: "},
    {"cluster.lease", "3", "expected a duration such as 3s"},
    {"cluster.lease", "50ms", "at least 0.1s"},
    {"run.name", "[a]", "found a list, expected a text"},
    {"run.name", "\"a\\tb\"", "expected a text"},
    {"data.train", "''", "found the text \"\""},
    {"optimizer.betas", "0.9", "expected a list of numbers"},
    {"optimizer.betas", "[]", "found an empty list"},
    {"optimizer.betas", "[0.9, 1.0]", "found '1.0'"},
    {"optimizer.betas", "[0.9, [0.9]]", "found a list"},
    {"pipeline.split", "all",
     "found 'all', expected auto or a list of integers"},
    {"pipeline.split", "[2, 2.5]", "found '2.5'"},
    {"pipeline.split", "[]", "found an empty list"}};
INSTANTIATE_TEST_SUITE_P(All, BadValueTest, testing::ValuesIn(kCases));

TEST(ValueReaderTest, CutsLongTexts) {
  v1::RunConfig config;
  const std::string text(1000, 'x');
  EXPECT_LT(Set(config, "model.layers", text.c_str()).message().size(), 250);
}

}  // namespace
}  // namespace gimbal::config
