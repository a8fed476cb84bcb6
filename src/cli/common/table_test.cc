// SPDX-License-Identifier: Apache-2.0
#include "cli/common/table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::cli {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoBlanksAtLineEnds) {
  Table table({{"name"}, {"fps", Table::Align::kRight}, {"note"}});
  table.Add({{"a"}, {"60"}, {""}});
  table.Add({{"longer"}, {"144.5"}, {"x"}});
  EXPECT_EQ(table.Render(false),
            "name      fps  note\n"
            "a          60\n"
            "longer  144.5  x\n");
}

TEST(Table, CountsCodePointsAndNotBytes) {
  Table table({{"a"}, {"b"}});
  table.Add({{"µé█"}, {"x"}});
  EXPECT_EQ(table.Render(false), "a    b\nµé█  x\n");
}

TEST(Table, ColoursOnlyWhenAskedTo) {
  Table table({{"a"}});
  table.Add({{"late", Style::kBad}});
  EXPECT_EQ(table.Render(false), "a\nlate\n");
  EXPECT_EQ(table.Render(true), "\x1b[1ma\x1b[0m\n\x1b[31mlate\x1b[0m\n");
}

TEST(Table, SeparatesGroups) {
  Table table({{"a"}});
  table.Add({{"1"}});
  table.AddGap();
  table.Add({{"2"}});
  EXPECT_EQ(table.Render(false), "a\n1\n\n2\n");
}

TEST(Table, ReplacesControlCharactersInNames) {
  Table table({{"a"}});
  table.Add({{"x\x1b[2J\ny"}});
  EXPECT_EQ(table.Render(false), "a\nx?[2J?y\n");
}

TEST(Printable, ReplacesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(Printable("plain µ █ 漢 😀"), "plain µ █ 漢 😀");
  EXPECT_EQ(Printable("\xc2\x9b[2J"), "?[2J") << "the C1 form of an escape sequence";
  EXPECT_EQ(Printable("\xff\x80z"), "??z");
  EXPECT_EQ(Printable("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(Printable("\xe2\x96"), "??") << "cut off";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???") << "a surrogate";
}

TEST(Bar, FillsInEighthsAndNeverOverflows) {
  EXPECT_EQ(Bar(0, 4), "    ");
  EXPECT_EQ(Bar(0.5, 4), "██  ");
  EXPECT_EQ(Bar(0.125, 1), "▏");
  EXPECT_EQ(Bar(7, 3), "███");
  EXPECT_EQ(Bar(-1, 3), "   ");
  EXPECT_EQ(DisplayWidth(Bar(0.999, 10)), 10U);
}

TEST(Bar, InAsciiHasNoEighths) {
  EXPECT_EQ(Bar(0.5, 4, Glyphs::kAscii), "##..");
  EXPECT_EQ(Bar(7, 4, Glyphs::kAscii), "####");
}

TEST(Sparkline, PutsTheNewestToTheRight) {
  const std::vector<double> values{0, 50, 100, 1000, -5, std::nan("")};
  EXPECT_EQ(Sparkline(values, 100, 8), "  ▁▅██▁▁");
  EXPECT_EQ(Sparkline(values, 100, 3), "█▁▁");
  EXPECT_EQ(Sparkline(values, 100, 8, Glyphs::kAscii), "  _=##__");
  EXPECT_EQ(Sparkline(values, 0, 2), "▁▁");
  EXPECT_EQ(Sparkline({}, 1, 2), "  ");
}

TEST(CutLine, CountsNeitherEscapesNorBytes) {
  EXPECT_EQ(CutLine("\x1b[1mäöü\x1b[0m rest", 2), "\x1b[1mäö\x1b[0m");
  EXPECT_EQ(CutLine("ab", 5), "ab");
}

}  // namespace
}  // namespace weir::cli
