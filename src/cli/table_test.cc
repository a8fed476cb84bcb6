// SPDX-License-Identifier: Apache-2.0
#include "cli/table.h"

#include <gtest/gtest.h>

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

TEST(Table, DoesNotLetAProgramsNameSteerTheTerminal) {
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

}  // namespace
}  // namespace weir::cli
