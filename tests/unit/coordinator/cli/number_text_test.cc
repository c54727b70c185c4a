#include "coordinator/cli/number_text.h"

#include <gtest/gtest.h>

namespace gimbal::cli {
namespace {

TEST(NumberTextTest, WholeNumbersWithinTheBoundsAreGood) {
  EXPECT_EQ(WholeNumberError("1", 1, 9), "");
  EXPECT_EQ(WholeNumberError("9", 1, 9), "");
  EXPECT_EQ(WholeNumberError("abc", 1, 9),
            "found 'abc', expected a whole number of at least 1");
  for (const char* text : {"", "0", "-1", "1.5", "1e1"}) {
    EXPECT_NE(WholeNumberError(text, 1, 9), "") << text;
  }
  EXPECT_EQ(WholeNumberError("10", 1, 9),
            "found '10', expected a whole number from 1 to 9");
}

TEST(NumberTextTest, NumbersAreFiniteAndBounded) {
  EXPECT_EQ(NumberError("0", 0, false), "");
  EXPECT_EQ(NumberError("2.5e-1", 0, true), "");
  EXPECT_EQ(NumberError("x", 0, false),
            "found 'x', expected a number of at least 0");
  EXPECT_EQ(NumberError("0", 0, true), "found '0', expected a number above 0");
  for (const char* text : {"", "nan", "inf", "-1", "1s"}) {
    EXPECT_NE(NumberError(text, 0, false), "") << text;
  }
}

}  // namespace
}  // namespace gimbal::cli
