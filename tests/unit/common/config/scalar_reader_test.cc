#include "common/config/scalar_reader.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gimbal::config {
namespace {

TEST(ScalarReaderTest, ReadsIntegersToTheirLimits) {
  EXPECT_EQ(ReadInt32("2147483647"), 2147483647);
  EXPECT_EQ(ReadInt32("-2147483648"), INT32_MIN);
  EXPECT_EQ(ReadInt32("2147483648"), std::nullopt);
  EXPECT_EQ(ReadInt64("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(ReadInt64("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ReadUint64("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(ReadUint64("-1"), std::nullopt);
}

TEST(ScalarReaderTest, RefusesWhatIsNoInteger) {
  for (const char* text : {"", "1.5", "1.0", "1e3", "abc", "12a", " 1", "1 ",
                           "0x10", "1_000", "--1", ".inf", "true"}) {
    EXPECT_EQ(ReadInt32(text), std::nullopt) << text;
    EXPECT_EQ(ReadInt64(text), std::nullopt) << text;
    EXPECT_EQ(ReadUint64(text), std::nullopt) << text;
  }
}

TEST(ScalarReaderTest, ReadsFiniteNumbersExactly) {
  EXPECT_EQ(ReadDouble("1.0e-3"), 1.0e-3);
  EXPECT_EQ(ReadDouble("7"), 7.0);
  EXPECT_EQ(ReadDouble("0.1"), 0.1);
  EXPECT_EQ(ReadDouble("-2.5E2"), -250.0);
  EXPECT_FALSE(std::signbit(*ReadDouble("-0.0")));
  for (const char* text :
       {"", "nan", "NaN", "inf", "-inf", ".inf", ".nan", "infinity", "1e999",
        "1e-999", "1.0.0", "1,5", "1.0f", " 1", "abc"}) {
    EXPECT_EQ(ReadDouble(text), std::nullopt) << text;
  }
}

TEST(ScalarReaderTest, ReadsBooleans) {
  EXPECT_EQ(ReadBool("true"), true);
  EXPECT_EQ(ReadBool("False"), false);
  for (const char* text : {"", "yes", "no", "on", "1", "0", "tRUE"}) {
    EXPECT_EQ(ReadBool(text), std::nullopt) << text;
  }
}

TEST(ScalarReaderTest, ReadsDurations) {
  const auto expect = [](const char* text, int64_t seconds, int32_t nanos) {
    const auto duration = ReadDuration(text);
    ASSERT_TRUE(duration.has_value()) << text;
    EXPECT_EQ(duration->seconds, seconds) << text;
    EXPECT_EQ(duration->nanos, nanos) << text;
  };
  expect("3s", 3, 0);
  expect("500ms", 0, 500'000'000);
  expect("2m", 120, 0);
  expect("1h1.5s", 3601, 500'000'000);
  for (const char* text : {"", "3", "-3s", "s", "3 s", "inf", "3d", "1e3s",
                           "99999999999999999h"}) {
    EXPECT_FALSE(ReadDuration(text).has_value()) << text;
  }
}

TEST(ScalarReaderTest, KnowsPrintableUtf8) {
  for (const char* text :
       {"", "/data/a b", "gr\xc3\xbc\xc3\x9f", "\xe6\x97\xa5",
        "\xf0\x9f\xa7\xad", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsPrintableUtf8(text)) << text;
  }
  for (const char* text :
       {"a\nb", "\x7f", "\t", "\x80", "\xff", "\xc3", "\xc3(", "\xc0\x80",
        "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xe6\x97"}) {
    EXPECT_FALSE(IsPrintableUtf8(text)) << text;
  }
  EXPECT_FALSE(IsPrintableUtf8(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace gimbal::config
