#include "coordinator/store/run_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/config/run_config_io.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::RunConfig Config(const std::string& lr = "1.0e-3") {
  const auto config = config::ParseRunConfig(
      "run: {name: demo, steps: 10}\n"
      "data: {train: t}\n"
      "model: {layers: 2, hidden: 8, heads: 2, context: 8}\n"
      "optimizer: {lr: " +
          lr + "}\n",
      "c.yaml", {});
  EXPECT_THAT(config, IsOk());
  return *config;
}

TEST(RunFolder, IsTakenOnceAtATime) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                       RunFolder::Take(dir / "run", Config(), false));
  EXPECT_THAT(folder.identity.run_id, StartsWith("demo-"));
  EXPECT_THAT(RunFolder::Take(dir / "run", Config(), true),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr("pid " + std::to_string(getpid()))));
}

TEST(RunFolder, AUsedFolderNeedsResume) {
  TempDir dir;
  std::string run_id;
  {
    ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                         RunFolder::Take(dir.path(), Config(), false));
    run_id = folder.identity.run_id;
  }
  EXPECT_THAT(
      RunFolder::Take(dir.path(), Config(), false),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("--resume")));
  ASSERT_OK_AND_ASSIGN(const RunFolder folder,
                       RunFolder::Take(dir.path(), Config(), true));
  EXPECT_EQ(folder.identity.run_id, run_id);
}

TEST(RunFolder, NamesTheFirstDifferenceToAnotherConfig) {
  TempDir dir;
  ASSERT_THAT(RunFolder::Take(dir.path(), Config(), false), IsOk());
  EXPECT_THAT(RunFolder::Take(dir.path(), Config("2.0e-3"), true),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("optimizer.lr")));
}

TEST(RunFolder, TwoRunsOfOneConfigDiffer) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const RunFolder a,
                       RunFolder::Take(dir / "a", Config(), false));
  ASSERT_OK_AND_ASSIGN(const RunFolder b,
                       RunFolder::Take(dir / "b", Config(), true));
  EXPECT_NE(a.identity.run_id, b.identity.run_id);
  EXPECT_EQ(a.identity.config_digest, b.identity.config_digest);
}

}  // namespace
}  // namespace gimbal::coordinator
