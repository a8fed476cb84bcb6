// SPDX-License-Identifier: Apache-2.0
#include "platform/failure_lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::platform {
namespace {

constexpr Instant kFirst = Instant{} + seconds(1000);

/// The lines of so many failures at once.
int LinesOf(FailureLines& lines, Instant now, int failures) {
  int logged = 0;
  for (int i = 0; i < failures; ++i) logged += lines.Failed(now, "a").empty() ? 0 : 1;
  return logged;
}

TEST(FailureLines, TheFirstAreLoggedAndTheOthersAreCounted) {
  FailureLines lines;
  EXPECT_EQ(lines.Due(kFirst), "");
  EXPECT_EQ(lines.Failed(kFirst, "a: no token"), "a: no token");
  EXPECT_EQ(LinesOf(lines, kFirst + seconds(1), 1000), FailureLines::kLinesMax - 1);
  EXPECT_EQ(lines.Failed(kFirst + seconds(2), "c: no TLS"), "");
  EXPECT_EQ(lines.Due(kFirst + FailureLines::kEvery - nanoseconds(1)), "");
  EXPECT_EQ(lines.Due(kFirst + FailureLines::kEvery), "992 more connections failed; the last one: c: no TLS");
  EXPECT_EQ(lines.Due(kFirst + 3 * FailureLines::kEvery), "") << "each is counted once";
}

TEST(FailureLines, TheLineWithTheirNumberIsOneOfTheNextMinute) {
  FailureLines lines;
  EXPECT_EQ(LinesOf(lines, kFirst, FailureLines::kLinesMax + 1), FailureLines::kLinesMax);
  EXPECT_EQ(lines.Due(kFirst + FailureLines::kEvery), "1 more connection failed; the last one: a");
  EXPECT_EQ(LinesOf(lines, kFirst + FailureLines::kEvery, 100), FailureLines::kLinesMax - 1);
}

TEST(FailureLines, OnesAfterAQuietMinuteAreLogged) {
  FailureLines lines;
  EXPECT_EQ(LinesOf(lines, kFirst, 3), 3);
  EXPECT_EQ(LinesOf(lines, kFirst + FailureLines::kEvery, 100), FailureLines::kLinesMax);
}

TEST(FailureLines, TheNextFailureTellsTheNumberIfNobodyAsked) {
  FailureLines lines;
  LinesOf(lines, kFirst, FailureLines::kLinesMax + 1);
  EXPECT_EQ(lines.Failed(kFirst + FailureLines::kEvery, "c"), "2 more connections failed; the last one: c");
}

TEST(FailureLines, AreAtMostTenAMinute) {
  FailureLines lines;
  std::vector<Instant> said;
  for (Instant now = kFirst; now < kFirst + seconds(600); now += milliseconds(70)) {
    if (!lines.Failed(now, "a").empty()) said.push_back(now);
    if (!lines.Due(now).empty()) said.push_back(now);
  }
  EXPECT_EQ(said.size(), 100U);
}

}  // namespace
}  // namespace weir::platform
