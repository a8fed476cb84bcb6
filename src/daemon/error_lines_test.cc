// SPDX-License-Identifier: Apache-2.0
#include "daemon/error_lines.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace weir::daemon {
namespace {

using Lines = std::vector<std::string>;
constexpr Instant kStart{seconds(100)};

TEST(ErrorLines, AreLoggedOnceTheyAreComplete) {
  ErrorLines lines;
  EXPECT_EQ(lines.Add("no dri", kStart), Lines{});
  EXPECT_EQ(lines.Add("ver\n\ngone\nand", kStart), (Lines{"no driver", "gone"}));
  EXPECT_EQ(lines.End(kStart), Lines{"and"});
  EXPECT_EQ(lines.End(kStart), Lines{});
}

// A kernel of a tenant may write anything.
TEST(ErrorLines, ArePrintableAndOfBoundedLength) {
  ErrorLines lines;
  EXPECT_EQ(lines.Add("\x1b[2J\rweir: all is well\n", kStart), Lines{"?[2J?weir: all is well"});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(lines.Add(std::string(1000, 'x'), kStart), Lines{});
  EXPECT_EQ(lines.Add("y\nz\n", kStart), (Lines{std::string(ErrorLines::kLineBytesMax, 'x'), "z"}));
}

TEST(ErrorLines, AreDroppedWhenThereAreTooMany) {
  ErrorLines lines;
  std::string many;
  for (std::size_t i = 0; i < ErrorLines::kLinesAtOnce + 7; ++i) many += "again\n";
  EXPECT_EQ(lines.Add(many, kStart).size(), ErrorLines::kLinesAtOnce);
  EXPECT_EQ(lines.Add("later\n", kStart + ErrorLines::kLineEvery), (Lines{"(7 lines were dropped)", "later"}));
}

/// Whatever is written, in whatever pieces: each line is printable and short, and the log grows by at most the burst
/// and one line (with the number of those that were dropped) for each interval.
RC_GTEST_PROP(ErrorLines, KeepTheirBounds, ()) {
  ErrorLines lines;
  Instant now = kStart;
  std::size_t logged = 0;
  for (int step = *rc::gen::inRange(0, 60); step > 0; --step) {
    now += milliseconds(*rc::gen::inRange(0, 1500));
    const auto bytes = *rc::gen::container<std::string>(
        rc::gen::weightedOneOf<char>({{3, rc::gen::just('\n')}, {5, rc::gen::arbitrary<char>()}}));
    for (const std::string& line : lines.Add(bytes, now)) {
      ++logged;
      RC_ASSERT((!line.empty() && line.size() <= ErrorLines::kLineBytesMax));
      for (const char c : line) RC_ASSERT((c >= 0x20 && c < 0x7F));
    }
  }
  const auto intervals = static_cast<std::size_t>((now - kStart) / ErrorLines::kLineEvery) + 1;
  RC_ASSERT(logged <= ErrorLines::kLinesAtOnce + 2 * intervals);
}

}  // namespace
}  // namespace weir::daemon
