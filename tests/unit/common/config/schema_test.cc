#include "common/config/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace gimbal::config {
namespace {

using testing::ElementsAre;

TEST(SchemaTest, EveryKeyIsDocumentedAndStandsOnce) {
  std::set<std::string> seen;
  for (const Key& key : AllKeys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_FALSE(RuleOf(*key.field).doc().empty()) << key.path;
    EXPECT_EQ(FindKey(key.path), &key);
  }
  EXPECT_TRUE(seen.contains("run.steps"));
  EXPECT_TRUE(seen.contains("optimizer.schedule.warmup"));
  EXPECT_TRUE(seen.contains("cluster.lease"));
  EXPECT_EQ(FindKey("optimizer.schedule"), nullptr);
  EXPECT_EQ(FindKey("nothing"), nullptr);
}

TEST(SchemaTest, KnowsWhichKeysAffectNumbers) {
  EXPECT_TRUE(FindKey("run.seed")->affects_numbers);
  EXPECT_TRUE(FindKey("optimizer.schedule.warmup")->affects_numbers);
  EXPECT_FALSE(FindKey("run.name")->affects_numbers);
  EXPECT_FALSE(FindKey("checkpoint.every")->affects_numbers)
      << "inherited from the section";
  EXPECT_TRUE(FindKey("cluster.threads")->affects_numbers)
      << "against its section";
}

TEST(SchemaTest, NamesEnumValuesAsYamlDoes) {
  const Field& schedule = *FindKey("pipeline.schedule")->field;
  EXPECT_THAT(EnumTexts(schedule),
              ElementsAre("async-1f1b", "1f1b", "gpipe", "2bw"));
  for (const char* text :
       {"async-1f1b", "async_1f1b", "ASYNC_1F1B", "Async-1F1B"}) {
    const auto* value = FindEnumValue(schedule, text);
    ASSERT_NE(value, nullptr) << text;
    EXPECT_EQ(value->number(), v1::SCHEDULE_KIND_ASYNC_1F1B);
  }
  for (const char* text :
       {"", "unspecified", "SCHEDULE_KIND_GPIPE", "1f1b ", "async"}) {
    EXPECT_EQ(FindEnumValue(schedule, text), nullptr) << text;
  }
  EXPECT_THAT(EnumTexts(*FindKey("optimizer.name")->field),
              ElementsAre("basis_rotation", "adamw", "nadamw", "muon", "sgd"));
}

}  // namespace
}  // namespace gimbal::config
