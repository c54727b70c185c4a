#include "coordinator/cli/format.h"

#include <gtest/gtest.h>

namespace gimbal::cli {
namespace {

TEST(FormatTest, CountsHaveThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(FormatCount(-123), "-123");
}

TEST(FormatTest, Bytes) {
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{5} << 40), "5.0 TiB");
}

TEST(FormatTest, Durations) {
  EXPECT_EQ(FormatDuration(0.84), "0.8 s");
  EXPECT_EQ(FormatDuration(59.96), "1 m 00 s");
  EXPECT_EQ(FormatDuration(65), "1 m 05 s");
  EXPECT_EQ(FormatDuration(7380), "2 h 03 m");
}

TEST(FormatTest, WordsOfACommandAreQuotedWhenAShellWouldReadThemOtherwise) {
  EXPECT_EQ(ShellWord("runs/a-1.b_2"), "runs/a-1.b_2");
  EXPECT_EQ(ShellWord("my runs/a"), "'my runs/a'");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
  EXPECT_EQ(ShellWord("~/a"), "'~/a'");
  EXPECT_EQ(ShellWord("$(rm a)"), "'$(rm a)'");
  EXPECT_EQ(ShellWord(""), "''");
}

TEST(TextTableTest, NumbersStandRightWordsLeft) {
  TextTable table({"run", "loss"});
  table.AddRow({"first", "2.25"});
  table.AddRow({"b", "-"});
  EXPECT_EQ(table.ToString(),
            "run    loss\n"
            "-----  ----\n"
            "first  2.25\n"
            "b         -\n");
}

}  // namespace
}  // namespace gimbal::cli
