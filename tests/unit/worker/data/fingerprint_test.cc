#include "worker/data/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/data/corpus_meta.h"
#include "worker/data/prepare.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::HasSubstr;

void Write(const std::string& path, const std::string& text) {
  ASSERT_THAT(io::WriteFileAtomically(path, text), IsOk());
}

TEST(DataFingerprint, TextIsItsContentsWhereverItIs) {
  const TempDir dir;
  Write(dir / "a", "some text");
  Write(dir / "b", "some text");
  Write(dir / "c", "some tent");
  ASSERT_OK_AND_ASSIGN(const std::string a,
                       DataFingerprint(dir / "a", DataFormat::kText, "train"));
  EXPECT_EQ(a, "text of 9 bytes, sha256 " + io::Sha256("some text"));
  EXPECT_EQ(*DataFingerprint(dir / "b", DataFormat::kText, "valid"), a);
  EXPECT_NE(*DataFingerprint(dir / "c", DataFormat::kText, "train"), a);
  EXPECT_THAT(DataFingerprint(dir / "d", DataFormat::kText, "train"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir / "d")));
}

TEST(DataFingerprint, APreparedFolderSaysItsHashes) {
  const TempDir dir;
  Write(dir / "a", "0123456789");
  const std::string out = dir / "out";
  ASSERT_THAT(
      Prepare({.inputs = {dir / "a"}, .out = out, .valid_fraction = 0.3}),
      IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string train,
                       DataFingerprint(out, DataFormat::kTokens, "train"));
  EXPECT_EQ(train, "7 tokens, sha256 " + io::Sha256("0123456"));
  ASSERT_OK_AND_ASSIGN(const std::string valid,
                       DataFingerprint(out, DataFormat::kTokens, "valid"));
  EXPECT_EQ(valid, "3 tokens, sha256 " + io::Sha256("789"));
  EXPECT_THAT(DataFingerprint(out, DataFormat::kTokens, "test"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // A folder of an earlier release is the same data.
  ASSERT_OK_AND_ASSIGN(CorpusMeta meta, ReadCorpusMeta(out));
  for (auto& [name, split] : meta.splits) split.sha256.clear();
  Write(out + "/meta.json", CorpusMetaText(meta));
  EXPECT_EQ(*DataFingerprint(out, DataFormat::kTokens, "train"), train);
}

TEST(DataFingerprint, AFileThatChangedUnderItsMetaIsRefused) {
  const TempDir dir;
  Write(dir / "a", "0123456789");
  ASSERT_THAT(Prepare({.inputs = {dir / "a"}, .out = dir / "out"}), IsOk());
  ASSERT_OK_AND_ASSIGN(const CorpusMeta meta, ReadCorpusMeta(dir / "out"));
  const std::string file = dir / ("out/" + meta.splits.at("train").files[0]);
  ASSERT_OK_AND_ASSIGN(std::string text, io::ReadFile(file));
  text[0] = 'x';
  Write(file, text);
  EXPECT_THAT(DataFingerprint(dir / "out", DataFormat::kTokens, "train"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has changed since it was prepared")));
}

TEST(DataFingerprint, HashesWithoutASenseAreRefused) {
  const TempDir dir;
  Write(dir / "a", "0123456789");
  ASSERT_THAT(Prepare({.inputs = {dir / "a"}, .out = dir / "out"}), IsOk());
  ASSERT_OK_AND_ASSIGN(CorpusMeta meta, ReadCorpusMeta(dir / "out"));
  meta.splits["train"].sha256 = {"abc"};
  Write(dir / "out/meta.json", CorpusMetaText(meta));
  EXPECT_THAT(ReadCorpusMeta(dir / "out"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("one hash per file")));
}

TEST(FileFingerprint, ALargeFileIsSampledFromEndToEnd) {
  const TempDir dir;
  std::string text(3 << 20, 'a');
  Write(dir / "a", text);
  ASSERT_OK_AND_ASSIGN(const std::string a,
                       FileFingerprint(dir / "a", /*whole_bytes=*/1000));
  EXPECT_THAT(a, HasSubstr("3145728 bytes, sampled sha256 "));
  for (const size_t changed : {size_t{0}, text.size() - 1}) {
    std::string other = text;
    other[changed] = 'b';
    Write(dir / "b", other);
    EXPECT_NE(*FileFingerprint(dir / "b", 1000), a);
  }
  Write(dir / "b", text);
  EXPECT_EQ(*FileFingerprint(dir / "b", 1000), a);
}

}  // namespace
}  // namespace gimbal::worker
