#include "worker/data/corpus_meta.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::worker {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(CorpusMetaTest, ReadsBackWhatItWrites) {
  const TempDir dir;
  const CorpusMeta meta{
      .tokenizer = "bytes",
      .vocab = 50257,
      .dtype = TokenType::kU16,
      .splits = {{"train", {5'000'000'000, {"a.bin", "b.bin"}}},
                 {"valid", {7, {"c.bin"}}}}};
  ASSERT_THAT(io::WriteFileAtomically(dir / "meta.json", CorpusMetaText(meta)),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const CorpusMeta back, ReadCorpusMeta(dir.path()));
  EXPECT_EQ(back.tokenizer, "bytes");
  EXPECT_EQ(back.vocab, 50257);
  EXPECT_EQ(back.dtype, TokenType::kU16);
  EXPECT_EQ(back.splits.at("train").tokens, 5'000'000'000);
  EXPECT_THAT(back.splits.at("train").files, ElementsAre("a.bin", "b.bin"));
  EXPECT_EQ(back.splits.at("valid").tokens, 7);
}

struct BadMeta {
  const char* json;
  const char* message;
};

class BadMetaTest : public testing::TestWithParam<BadMeta> {};

TEST_P(BadMetaTest, NamesFileAndReason) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "meta.json", GetParam().json),
              IsOk());
  EXPECT_THAT(ReadCorpusMeta(dir.path()),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(dir / "meta.json"),
                             HasSubstr(GetParam().message))));
}

#define START R"({"format":1,"tokenizer":"bytes","vocab":256,"dtype":"u8",)"
const BadMeta kCases[] = {
    {"", "not a JSON object"},
    {"[1]", "not a JSON object"},
    {R"({"format":1)", "not a JSON object"},
    {R"({"format":2})", "expected \"format\": 1"},
    {R"({"format":"1"})", "expected \"format\": 1"},
    {R"({"format":1,"tokenizer":3,"vocab":2})", "\"tokenizer\""},
    {R"({"format":1,"tokenizer":"b","vocab":-2})", "\"vocab\""},
    {R"({"format":1,"tokenizer":"b","vocab":2,"dtype":"i8"})",
     "\"dtype\": u8, u16 or u32"},
    {R"({"format":1,"tokenizer":"b","vocab":2,"dtype":8})",
     "\"dtype\": u8, u16 or u32"},
    {START R"("splits":[]})", "an object \"splits\""},
    {START R"("splits":{"train":7}})", "splits.train: expected {"},
    {START R"("splits":{"train":{"tokens":1.5,"files":[]}}})",
     "splits.train: expected {"},
    {START R"("splits":{"train":{"tokens":1,"files":"a"}}})",
     "a list \"files\""},
    {START R"("splits":{"train":{"tokens":1,"files":[1]}}})",
     "plain file names"},
    {START R"("splits":{"train":{"tokens":1,"files":["../a"]}}})",
     "plain file names"}};
INSTANTIATE_TEST_SUITE_P(All, BadMetaTest, testing::ValuesIn(kCases));
#undef START

TEST(CorpusMetaTest, NamesTheMissingFile) {
  const TempDir dir;
  EXPECT_THAT(ReadCorpusMeta(dir.path()),
              StatusIs(StatusCode::kNotFound, HasSubstr(dir / "meta.json")));
}

}  // namespace
}  // namespace gimbal::worker
