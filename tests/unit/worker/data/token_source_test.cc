#include "worker/data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/corpus_meta.h"

namespace gimbal::worker {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
void WriteIds(const std::string& path, const std::vector<T>& ids) {
  ASSERT_THAT(
      io::WriteFileAtomically(path, {reinterpret_cast<const char*>(ids.data()),
                                     ids.size() * sizeof(T)}),
      IsOk());
}

// By default a vocabulary that leaves the check of every id its work.
void WriteMeta(const TempDir& dir, TokenType dtype, int64_t tokens,
               const std::vector<std::string>& files, int64_t vocab = 16,
               const std::string& tokenizer = "bytes") {
  ASSERT_THAT(io::WriteFileAtomically(
                  dir / "meta.json",
                  CorpusMetaText({.tokenizer = tokenizer,
                                  .vocab = vocab,
                                  .dtype = dtype,
                                  .splits = {{"train", {tokens, files}}}})),
              IsOk());
}

auto OpenTrain(const TempDir& dir, int vocab, int context) {
  return TokenSource::Open(dir.path(), DataFormat::kTokens, "train", vocab,
                           context);
}

std::vector<int32_t> ReadAll(const TokenSource& source) {
  std::vector<int32_t> ids(source.size());
  source.Read(0, source.size(), ids.data());
  return ids;
}

TEST(TokenSourceTest, ReadsTextAsUnsignedBytes) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "t", "a\x80\xff\n"), IsOk());
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      TokenSource::Open(dir / "t", DataFormat::kText, "train", 256, 3));
  EXPECT_THAT(ReadAll(*source), ElementsAre('a', 128, 255, '\n'));
}

TEST(TokenSourceTest, ReadsAcrossFilesOfEveryType) {
  const auto check = [](auto id_type, TokenType dtype, int vocab) {
    using T = decltype(id_type);
    const TempDir dir;
    WriteIds<T>(dir / "a", {1, 2, 3});
    WriteIds<T>(dir / "empty", {});
    WriteIds<T>(dir / "b", {4});
    WriteIds<T>(dir / "c", {5, static_cast<T>(vocab - 1)});
    WriteMeta(dir, dtype, 6, {"a", "empty", "b", "c"});
    ASSERT_OK_AND_ASSIGN(const auto source, OpenTrain(dir, vocab, 5));
    const std::vector<int32_t> all = {1, 2, 3, 4, 5, vocab - 1};
    EXPECT_EQ(source->size(), 6);
    for (int64_t begin = 0; begin <= 6; ++begin) {
      for (int64_t count = 0; begin + count <= 6; ++count) {
        std::vector<int32_t> out(count + 1, -7);
        source->Read(begin, count, out.data());
        EXPECT_TRUE(
            std::equal(out.begin(), out.begin() + count, all.begin() + begin));
        EXPECT_EQ(out[count], -7) << "wrote past the end";
      }
    }
  };
  check(uint8_t{}, TokenType::kU8, 200);
  check(uint16_t{}, TokenType::kU16, 50257);
  check(uint32_t{}, TokenType::kU32, 200000);
}

TEST(TokenSourceTest, FindsTheFirstIdBeyondTheVocabulary) {
  const TempDir dir;
  std::vector<uint16_t> ids(100'000, 41);
  WriteIds<uint16_t>(dir / "a", ids);
  ids[70'001] = 43;
  ids[99'999] = 60'000;
  WriteIds<uint16_t>(dir / "b", ids);
  WriteMeta(dir, TokenType::kU16, 200'000, {"a", "b"});
  EXPECT_THAT(
      OpenTrain(dir, 43, 8),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr(dir / "b"), HasSubstr("token id 43"),
                     HasSubstr("byte offset 140002"), HasSubstr("(43)"))));
  EXPECT_THAT(OpenTrain(dir, 60'001, 8), IsOk());
  EXPECT_THAT(OpenTrain(dir, 60'000, 8),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("id 60000")));
  EXPECT_THAT(OpenTrain(dir, 70'000, 8), IsOk());
}

TEST(TokenSourceTest, ChecksBytesAndWideIdsToo) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "t", "abcdefz"), IsOk());
  EXPECT_THAT(TokenSource::Open(dir / "t", DataFormat::kText, "", 122, 2),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("id 122"), HasSubstr("offset 6"))));
  EXPECT_THAT(TokenSource::Open(dir / "t", DataFormat::kText, "", 123, 2),
              IsOk());
  WriteIds<uint32_t>(dir / "wide", {1, 2, 3, 4'294'967'295});
  WriteMeta(dir, TokenType::kU32, 4, {"wide"});
  EXPECT_THAT(
      OpenTrain(dir, INT32_MAX, 2),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr("id 4294967295"), HasSubstr("byte offset 12"))));
}

TEST(TokenSourceTest, WantsMoreTokensThanContext) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "t", "12345678"), IsOk());
  ASSERT_THAT(io::WriteFileAtomically(dir / "empty", ""), IsOk());
  const auto open = [&dir](const char* name, int context) {
    return TokenSource::Open(dir / name, DataFormat::kText, "", 256, context);
  };
  EXPECT_THAT(open("t", 7), IsOk());
  EXPECT_THAT(open("t", 8),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("holds 8 tokens, expected more than"),
                             HasSubstr("(8)"))));
  EXPECT_THAT(open("t", INT32_MAX), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(open("empty", 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is empty")));
}

TEST(TokenSourceTest, SaysWhichFormatThePathHas) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "t", "abc"), IsOk());
  EXPECT_THAT(TokenSource::Open(dir / "t", DataFormat::kTokens, "", 256, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("needs data.format: text")));
  EXPECT_THAT(TokenSource::Open(dir.path(), DataFormat::kText, "", 256, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("needs data.format: tokens")));
  EXPECT_THAT(TokenSource::Open(dir / "none", DataFormat::kText, "", 256, 1),
              StatusIs(StatusCode::kNotFound, HasSubstr(dir / "none")));
  EXPECT_THAT(OpenTrain(dir, 256, 1),
              StatusIs(StatusCode::kNotFound, HasSubstr("meta.json")));
}

TEST(TokenSourceTest, RefusesFoldersThatContradictTheirMeta) {
  const TempDir dir;
  WriteIds<uint16_t>(dir / "a", {1, 2, 3});
  WriteMeta(dir, TokenType::kU16, 4, {"a"});
  EXPECT_THAT(OpenTrain(dir, 256, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("hold 3 tokens, meta.json says 4")));
  WriteMeta(dir, TokenType::kU16, 3, {"gone"});
  EXPECT_THAT(OpenTrain(dir, 256, 1),
              StatusIs(StatusCode::kNotFound, HasSubstr("gone")));
  WriteMeta(dir, TokenType::kU16, 0, {});
  EXPECT_THAT(OpenTrain(dir, 256, 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is empty")));
  ASSERT_THAT(io::WriteFileAtomically(dir / "odd", "12345"), IsOk());
  WriteMeta(dir, TokenType::kU16, 2, {"odd"});
  EXPECT_THAT(OpenTrain(dir, 256, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(dir / "odd"), HasSubstr("5 bytes"))));
  WriteMeta(dir, TokenType::kU16, 3, {"a"});
  EXPECT_THAT(
      TokenSource::Open(dir.path(), DataFormat::kTokens, "valid", 256, 1),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("has no split \"valid\"")));
}

TEST(TokenSourceTest, RefusesFoldersOfAnotherTokenizerOrALargerVocabulary) {
  const TempDir dir;
  WriteIds<uint8_t>(dir / "a", {1, 2, 3});
  WriteMeta(dir, TokenType::kU8, 3, {"a"}, 256, "bpe.json");
  EXPECT_THAT(
      OpenTrain(dir, 256, 1),
      StatusIs(StatusCode::kInvalidArgument,
               AllOf(HasSubstr(dir / "meta.json"), HasSubstr("'bpe.json'"),
                     HasSubstr("data.tokenizer is 'bytes'"))));
  EXPECT_THAT(TokenSource::Open(dir.path(), DataFormat::kTokens, "train", 256,
                                1, "bpe.json"),
              IsOk());
  WriteMeta(dir, TokenType::kU8, 3, {"a"}, 256);
  EXPECT_THAT(OpenTrain(dir, 255, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("has 256 ids"),
                             HasSubstr("model.vocab is 255"))));
}

// A sparse file stands in for one of real size.
TEST(TokenSourceTest, ReadsBehindFourGigabytes) {
  const TempDir dir;
  constexpr int64_t kSize = (int64_t{1} << 32) + 1000;
  std::ofstream file(dir / "t", std::ios::binary);
  file.seekp(kSize - 3);
  file << "xyz";
  file.close();
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      TokenSource::Open(dir / "t", DataFormat::kText, "", 256, 128));
  EXPECT_EQ(source->size(), kSize);
  int32_t out[3] = {};
  source->Read(kSize - 3, 3, out);
  EXPECT_THAT(out, ElementsAre('x', 'y', 'z'));
}

TEST(TokenSourceDeathTest, ReadsNothingOutOfRange) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "t", "abcd"), IsOk());
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      TokenSource::Open(dir / "t", DataFormat::kText, "", 256, 2));
  int32_t out[8];
  EXPECT_DEATH(source->Read(2, 3, out), "broken invariant");
  EXPECT_DEATH(source->Read(-1, 2, out), "broken invariant");
}

}  // namespace
}  // namespace gimbal::worker
