// SPDX-License-Identifier: Apache-2.0
#include "cli/common/text_units.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(ParseBytes, TakesUnitsOfPowersOf1024) {
  EXPECT_EQ(ParseBytes("4096").value().count, 4096U);
  EXPECT_EQ(ParseBytes("512M").value(), MiB(512));
  EXPECT_EQ(ParseBytes("64MiB").value(), MiB(64));
  EXPECT_EQ(ParseBytes("1.5g").value(), MiB(1536));
  EXPECT_EQ(ParseBytes("0").value().count, 0U);
}

TEST(ParseBytes, RefusesWhatIsNotAnAmount) {
  for (const char* text : {"", "M", "-1M", "1X", "1M2", "nan", "inf", " 1M", "1e3", "99999999999T"}) {
    const auto parsed = ParseBytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, Errc::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(text), std::string::npos) << "the message repeats what was given";
  }
}

TEST(ParseMemoryRange, TakesAMaximumAloneOrBoth) {
  EXPECT_EQ(ParseMemoryRange("1G").value(), (MemoryRange{Bytes{0}, MiB(1024)}));
  EXPECT_EQ(ParseMemoryRange("512M:1G").value(), (MemoryRange{MiB(512), MiB(1024)}));
  EXPECT_EQ(ParseMemoryRange("512M:0").value(), (MemoryRange{MiB(512), Bytes{0}})) << "no upper limit";
  EXPECT_FALSE(ParseMemoryRange("1G:512M"));
  EXPECT_FALSE(ParseMemoryRange("1G:"));
  EXPECT_FALSE(ParseMemoryRange(":1G"));
}

TEST(ParseCpuList, TakesRangesSortedAndOnce) {
  EXPECT_EQ(ParseCpuList("0-1").value(), (std::vector<int>{0, 1}));
  EXPECT_EQ(ParseCpuList("5,0-2,1").value(), (std::vector<int>{0, 1, 2, 5}));
  for (const char* text : {"", "a", "3-1", "-1", "1-", "1,,2", "0-99999"}) EXPECT_FALSE(ParseCpuList(text)) << text;
}

TEST(ParseDuration, CountsSecondsUnlessTold) {
  EXPECT_EQ(ParseDuration("15").value(), seconds(15));
  EXPECT_EQ(ParseDuration("1.5s").value(), milliseconds(1500));
  EXPECT_EQ(ParseDuration("250ms").value(), milliseconds(250));
  EXPECT_EQ(ParseDuration("2m").value(), seconds(120));
  EXPECT_EQ(ParseDuration("30d").value(), seconds(30 * 86'400));
  for (const char* text : {"", "s", "-1", "1w", "1e30"}) EXPECT_FALSE(ParseDuration(text)) << text;
}

TEST(ParseFraction, TakesPercent) {
  EXPECT_DOUBLE_EQ(ParseFraction("0.4").value(), 0.4);
  EXPECT_DOUBLE_EQ(ParseFraction("40%").value(), 0.4);
  EXPECT_FALSE(ParseFraction("40 percent"));
}

TEST(ParseNumber, TakesTheWholeTextOrNothing) {
  EXPECT_DOUBLE_EQ(ParseNumber("-1.5").value(), -1.5);
  for (const char* text : {"", "1x", "--1", "nan", "0x10"}) EXPECT_FALSE(ParseNumber(text)) << text;
  EXPECT_EQ(ParseWhole("-3").value(), -3);
  for (const char* text : {"", "1.5", "9223372036854775808"}) EXPECT_FALSE(ParseWhole(text)) << text;
}

TEST(ParseNamedValue, SplitsAtTheFirstEqualsSign) {
  EXPECT_EQ(ParseNamedValue("period_ms=1.5").value(), (NamedValue{"period_ms", 1.5}));
  EXPECT_EQ(ParseNamedValue("sync=finish").value(), (NamedValue{"sync", "finish"}));
  for (const char* text : {"period_ms", "=1", "a=", "a=B", "a=1=2", "a=1x", "a=b c"})
    EXPECT_FALSE(ParseNamedValue(text)) << text;
}

TEST(FormatUnits, UsesTheLargestFittingUnit) {
  EXPECT_EQ(FormatBytes(Bytes{0}), "0");
  EXPECT_EQ(FormatBytes(MiB(512)), "512M");
  EXPECT_EQ(FormatBytes(MiB(1536)), "1.5G");
  EXPECT_EQ(FormatDuration(milliseconds(350)), "350 ms");
  EXPECT_EQ(FormatDuration(seconds(12)), "12 s");
  EXPECT_EQ(FormatDuration(seconds(3780)), "1 h 3 min");
  EXPECT_EQ(FormatPercent(0.314), "31 %");
  EXPECT_EQ(FormatPercent(0.004), "0.4 %");
  EXPECT_EQ(FormatPercent(0), "0 %");
}

}  // namespace
}  // namespace weir::cli
