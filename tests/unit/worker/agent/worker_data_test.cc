#include "worker/agent/worker_data.h"

#include <gtest/gtest.h>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::worker {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;

v1::RunConfig ConfigOf(const TempDir& dir, const std::string& seed = "1") {
  const auto config = config::ParseRunConfig(
      "run: {steps: 5, seed: " + seed + "}\ndata: {train: " + (dir / "text") +
          ", valid: " + (dir / "text") +
          ", format: text}\n"
          "model: {layers: 1, hidden: 8, heads: 2, context: 8}\n",
      "test", {});
  EXPECT_THAT(config, IsOk());
  return *config;
}

// A new generation must not read a large corpus again.
TEST(WorkerData, OpensTheDataOfAConfigOnce) {
  const TempDir dir;
  ASSERT_THAT(io::WriteFileAtomically(dir / "text", std::string(100, 'a')),
              IsOk());
  WorkerData data;
  ASSERT_THAT(data.Open(ConfigOf(dir)), IsOk());
  const BatchSampler* sampler = data.train.get();
  ASSERT_NE(sampler, nullptr);
  EXPECT_NE(data.valid, nullptr);
  ASSERT_THAT(io::WriteFileAtomically(dir / "text", "short"), IsOk());
  EXPECT_THAT(data.Open(ConfigOf(dir)), IsOk());
  EXPECT_EQ(data.train.get(), sampler);
  // Another run: what is on disk counts.
  EXPECT_THAT(data.Open(ConfigOf(dir, "2")),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace gimbal::worker
