#include "common/net/secret.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace gimbal::net {
namespace {

// RFC 4231, test case 2.
TEST(Secret, HmacIsTheOneOfTheStandard) {
  EXPECT_EQ(absl::BytesToHexString(
                HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(HmacSha256("", "").size(), kSecretBytes);
}

TEST(Secret, IsTheSameOrNot) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_TRUE(SameSecret("", ""));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("ab", "abc"));
}

TEST(Secret, RandomBytesAreNotTheSameTwice) {
  EXPECT_EQ(RandomBytes(32).size(), 32u);
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

}  // namespace
}  // namespace gimbal::net
