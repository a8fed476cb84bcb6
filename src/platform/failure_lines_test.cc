// SPDX-License-Identifier: Apache-2.0
#include "platform/failure_lines.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::platform {
namespace {

constexpr Instant kFirst = Instant{} + seconds(1000);

TEST(FailureLines, TheFirstIsLoggedAndTheOthersAreCounted) {
  FailureLines lines;
  EXPECT_EQ(lines.Due(kFirst), "");
  EXPECT_EQ(lines.Failed(kFirst, "a: no token"), "a: no token");
  for (int i = 1; i <= 1000; ++i) EXPECT_EQ(lines.Failed(kFirst + milliseconds(i), "b: no token"), "");
  EXPECT_EQ(lines.Failed(kFirst + seconds(2), "c: no TLS"), "");
  EXPECT_EQ(lines.Due(kFirst + FailureLines::kEvery - nanoseconds(1)), "");
  EXPECT_EQ(lines.Due(kFirst + FailureLines::kEvery), "1001 more connections failed; the last one: c: no TLS");
  EXPECT_EQ(lines.Due(kFirst + 3 * FailureLines::kEvery), "") << "each is counted once";
}

TEST(FailureLines, OneAfterAQuietMinuteIsLogged) {
  FailureLines lines;
  EXPECT_EQ(lines.Failed(kFirst, "a"), "a");
  EXPECT_EQ(lines.Failed(kFirst + FailureLines::kEvery, "b"), "b");
  EXPECT_EQ(lines.Failed(kFirst + FailureLines::kEvery, "c"), "");
  EXPECT_EQ(lines.Due(kFirst + 2 * FailureLines::kEvery), "1 more connection failed; the last one: c");
  EXPECT_EQ(lines.Failed(kFirst + 2 * FailureLines::kEvery, "d"), "") << "the count was a line, too";
}

TEST(FailureLines, TheNextFailureTellsTheCountIfNobodyAsked) {
  FailureLines lines;
  EXPECT_EQ(lines.Failed(kFirst, "a"), "a");
  EXPECT_EQ(lines.Failed(kFirst, "b"), "");
  EXPECT_EQ(lines.Failed(kFirst + FailureLines::kEvery, "c"), "2 more connections failed; the last one: c");
}

TEST(FailureLines, AreAtMostOneAMinute) {
  FailureLines lines;
  std::vector<Instant> said;
  for (Instant now = kFirst; now < kFirst + seconds(600); now += milliseconds(70)) {
    if (!lines.Failed(now, "a").empty()) said.push_back(now);
    if (!lines.Due(now).empty()) said.push_back(now);
  }
  EXPECT_EQ(said.size(), 10U);
  for (std::size_t i = 1; i < said.size(); ++i) EXPECT_GE(said[i] - said[i - 1], FailureLines::kEvery);
}

}  // namespace
}  // namespace weir::platform
