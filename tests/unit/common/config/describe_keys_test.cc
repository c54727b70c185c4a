#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/run_config_io.h"
#include "common/config/schema.h"

namespace gimbal::config {
namespace {

using testing::HasSubstr;

TEST(DescribeKeysTest, DescribesEveryKey) {
  const std::string text = DescribeKeys();
  for (const Key& key : AllKeys()) EXPECT_THAT(text, HasSubstr(key.path));
  EXPECT_THAT(text, HasSubstr("an integer, at least 1 (required)"));
  EXPECT_THAT(text, HasSubstr("(default: async-1f1b)"));
  EXPECT_THAT(text, HasSubstr("a text (default: none)"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'),
            static_cast<ptrdiff_t>(AllKeys().size()));
}

}  // namespace
}  // namespace gimbal::config
