#include "common/config/paths.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/status_matchers.h"

namespace gimbal::config {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using testing::HasSubstr;

TEST(PathsTest, EveryPathOfAConfigBecomesAbsolute) {
  v1::RunConfig config;
  config.mutable_data()->set_train("a/../corpus");
  config.mutable_checkpoint()->set_dir("/tmp/x");
  ASSERT_THAT(ResolvePaths(config), IsOk());
  EXPECT_EQ(config.data().train(),
            std::filesystem::current_path().string() + "/corpus");
  EXPECT_EQ(config.data().valid(), "");
  EXPECT_EQ(config.checkpoint().dir(), "/tmp/x");
}

TEST(PathsTest, ANameThatNoMessageCarriesIsRefused) {
  EXPECT_THAT(AbsolutePath("the run folder", "/tmp/\xff"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the run folder: /tmp/?: the name is not")));
}

}  // namespace
}  // namespace gimbal::config
