#include "common/base/utf8.h"

#include <gtest/gtest.h>

namespace gimbal::base {
namespace {

TEST(Utf8, ValidTextStaysAsItIs) {
  for (const char* text :
       {"", "plain", "\u00e9", "\u20ac 5", "\U0001f600", "\uffff"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
    EXPECT_EQ(ValidUtf8(text), text);
  }
}

TEST(Utf8, EveryBadByteIsReplaced) {
  EXPECT_EQ(ValidUtf8("a\xff\xfe z"), "a?? z");
  EXPECT_EQ(ValidUtf8("\xc3"), "?");                 // torn
  EXPECT_EQ(ValidUtf8("\xe2\x82"), "??");            // torn
  EXPECT_EQ(ValidUtf8("\xc0\xaf"), "??");            // overlong
  EXPECT_EQ(ValidUtf8("\xe0\x9f\xbf"), "???");       // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"), "????");  // beyond U+10FFFF
  EXPECT_EQ(ValidUtf8("\x80\u00e9"), "?\u00e9");
  EXPECT_FALSE(IsValidUtf8("\x80"));
}

}  // namespace
}  // namespace gimbal::base
