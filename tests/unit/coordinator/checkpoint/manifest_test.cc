#include "coordinator/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

TEST(Manifest, ReadsWhatItWrites) {
  Manifest manifest{
      .run_id = "demo-1", .config_digest = "abc", .update = 200, .layers = 5};
  manifest.stages.resize(2);
  manifest.stages[1].set_stage(1);
  manifest.stages[1].set_first_block(3);
  manifest.stages[1].set_blocks(2);
  v1::CheckpointFile& file = manifest.files.emplace_back();
  file.set_path("layers/layer-000.safetensors");
  file.set_bytes(int64_t{1} << 40);
  file.set_sha256("00ff");
  test_support::TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "manifest.json", ToJson(manifest)),
              IsOk());
  ASSERT_OK_AND_ASSIGN(const Manifest read, ReadManifest(dir.path()));
  EXPECT_EQ(read.run_id, "demo-1");
  EXPECT_EQ(read.config_digest, "abc");
  EXPECT_EQ(read.update, 200);
  EXPECT_EQ(read.layers, 5);
  ASSERT_EQ(read.stages.size(), 2u);
  EXPECT_EQ(read.stages[1].first_block(), 3);
  ASSERT_EQ(read.files.size(), 1u);
  EXPECT_EQ(read.files[0].bytes(), int64_t{1} << 40);
}

TEST(Manifest, NamesWhatIsWrong) {
  test_support::TempDir dir;
  EXPECT_FALSE(ReadManifest(dir.path()).ok());
  for (const char* text :
       {"", "[]", "{\"format\": 1}", "{\"format\": \"x\"}"}) {
    ASSERT_THAT(io::WriteFileAtomically(dir / "manifest.json", text), IsOk());
    EXPECT_THAT(ReadManifest(dir.path()),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("manifest.json: not a manifest")))
        << text;
  }
  ASSERT_THAT(io::WriteFileAtomically(dir / "manifest.json", "{\"format\": "),
              IsOk());
  EXPECT_THAT(ReadManifest(dir.path()).status().message(),
              HasSubstr("is damaged at byte 12 of 11"));
  ASSERT_THAT(io::WriteFileAtomically(dir / "manifest.json", "{\"format\": 9}"),
              IsOk());
  EXPECT_THAT(
      ReadManifest(dir.path()),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("format 9")));
}

}  // namespace
}  // namespace gimbal::coordinator
