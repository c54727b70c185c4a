#include "worker/data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/token_source.h"

namespace gimbal::worker {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::HasSubstr;

std::string TextOf(const std::string& folder, const char* split) {
  const auto source =
      TokenSource::Open(folder, DataFormat::kTokens, split, 256, 1);
  if (!source.ok()) return source.status().ToString();
  std::vector<int32_t> ids((*source)->size());
  (*source)->Read(0, (*source)->size(), ids.data());
  return std::string(ids.begin(), ids.end());
}

TEST(PrepareTest, JoinsTheInputsAndHoldsOutTheEnd) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "0123456"), IsOk());
  ASSERT_THAT(io::WriteFileAtomically(dir / "empty", ""), IsOk());
  ASSERT_THAT(io::WriteFileAtomically(dir / "b",
                                      "789\xff"
                                      "bcdefghij"),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const PrepareResult result,
                       Prepare({.inputs = {dir / "a", dir / "empty", dir / "b"},
                                .out = dir / "deep/out",
                                .valid_fraction = 0.75}));
  EXPECT_EQ(result.train_tokens, 5);
  EXPECT_EQ(result.valid_tokens, 15);
  EXPECT_EQ(result.vocab, 256);
  EXPECT_EQ(TextOf(dir / "deep/out", "train"), "01234");
  EXPECT_EQ(TextOf(dir / "deep/out", "valid"),
            "56789\xff"
            "bcdefghij");
}

TEST(PrepareTest, HoldsOutNothingWhenAsked) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "0123456"), IsOk());
  ASSERT_OK_AND_ASSIGN(
      const PrepareResult result,
      Prepare(
          {.inputs = {dir / "a"}, .out = dir / "out", .valid_fraction = 0.0}));
  EXPECT_EQ(result.valid_tokens, 0);
  EXPECT_EQ(TextOf(dir / "out", "train"), "0123456");
  EXPECT_THAT(TextOf(dir / "out", "valid"), HasSubstr("has no split"));
}

TEST(PrepareTest, LeavesAnExistingCorpusAlone) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "0123456"), IsOk());
  const PrepareOptions options{
      .inputs = {dir / "a"}, .out = dir / "out", .valid_fraction = 0.0};
  ASSERT_THAT(Prepare(options), IsOk());
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "other"), IsOk());
  EXPECT_THAT(Prepare(options), StatusIs(StatusCode::kAlreadyExists,
                                         HasSubstr(dir / "out/meta.json")));
  EXPECT_EQ(TextOf(dir / "out", "train"), "0123456");
}

TEST(PrepareTest, OverwritesWhatAnInterruptedAttemptLeft) {
  const TempDir dir;
  for (const char* left : {"train-00000.bin", "valid-00000.bin",
                           "train-00000.bin.tmp", "meta.json.tmp"}) {
    ASSERT_THAT(io::WriteFileAtomically(dir / "out" + ("/" + std::string(left)),
                                        "a longer leftover"),
                IsOk());
  }
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "0123456789"), IsOk());
  ASSERT_THAT(
      Prepare(
          {.inputs = {dir / "a"}, .out = dir / "out", .valid_fraction = 0.5}),
      IsOk());
  EXPECT_EQ(TextOf(dir / "out", "train"), "01234");
  EXPECT_EQ(TextOf(dir / "out", "valid"), "56789");
}

TEST(PrepareTest, WritesNothingOnError) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "0123456"), IsOk());
  ASSERT_THAT(io::WriteFileAtomically(dir / "empty", ""), IsOk());
  const std::string out = dir / "out";
  EXPECT_THAT(Prepare({.inputs = {}, .out = out}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no input")));
  EXPECT_THAT(Prepare({.inputs = {dir / "a", dir / "none"}, .out = out}),
              StatusIs(StatusCode::kNotFound, HasSubstr(dir / "none")));
  EXPECT_THAT(Prepare({.inputs = {dir / "empty"}, .out = out}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is empty")));
  EXPECT_THAT(Prepare({.inputs = {dir / "a"}, .tokenizer = "bpe", .out = out}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("'bpe'")));
  for (const double fraction : {-0.1, 1.0, 2.0, std::nan("")}) {
    EXPECT_THAT(
        Prepare(
            {.inputs = {dir / "a"}, .out = out, .valid_fraction = fraction}),
        StatusIs(StatusCode::kInvalidArgument, HasSubstr("share")));
  }
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_FALSE(Prepare({.inputs = {dir / "a"}, .out = dir / "a/out"}).ok());
}

TEST(PrepareTest, TakesBackWhatItWroteBeforeAnError) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "a", "0123456"), IsOk());
  // The last write fails: a folder stands where meta.json is written first.
  ASSERT_THAT(io::MakeFolders(dir / "out/meta.json.tmp"), IsOk());
  EXPECT_THAT(Prepare({.inputs = {dir / "a"}, .out = dir / "out"}),
              testing::Not(IsOk()));
  EXPECT_FALSE(std::filesystem::exists(dir / "out/train-00000.bin"));
  EXPECT_TRUE(std::filesystem::exists(dir / "out"));
}

}  // namespace
}  // namespace gimbal::worker
