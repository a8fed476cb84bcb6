// SPDX-License-Identifier: Apache-2.0
#include "core/partition/hand_out.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <vector>

namespace weir::core {
namespace {

const auto kAnyFits = [](const GroupRange&) { return true; };

/// A worker with a rate of `speed` groups per second. It may leave after a number of ranges, and take the next range
/// before it has ended the last one.
struct FarWorker {
  double speed = 1;
  std::optional<int> goes_at{};     // number of ranges after which it leaves
  std::uint64_t most = UINT64_MAX;  // the most groups that fit it
  std::size_t depth = 1;            // number of ranges it holds at a time
};

struct HandedOut {
  std::vector<int> times;  // number of executions of each group
  double end_s = 0;
};

/// Plays a launch to its end. The first worker never leaves, and requests work at each change. The others leave when
/// they get nothing.
HandedOut PlayHandOut(std::uint64_t groups, const std::vector<FarWorker>& workers) {
  struct Busy {
    bool there = true;
    std::deque<GroupRange> has{};
    Instant until{};  // of the first range
    int ends = 0;
  };
  HandOut out({0, groups}, std::vector<double>(workers.size(), 0.0));
  HandedOut played{.times = std::vector<int>(groups, 0)};
  std::vector<Busy> busy(workers.size());
  Instant now{};
  const auto begin = [&](std::size_t i) {
    const double takes_s = static_cast<double>(busy[i].has.front().count()) / workers[i].speed;
    busy[i].until = now + std::max(FromSeconds(takes_s), Duration(1));
  };
  while (!out.Done()) {
    for (std::size_t i = 0; i < workers.size(); ++i) {
      Busy& one = busy[i];
      while (one.there && one.has.size() < workers[i].depth) {
        const GroupRange taken = out.Take(
            i, [&](const GroupRange& range) { return range.count() <= workers[i].most; }, now);
        if (taken.empty()) break;
        one.has.push_back(taken);
        if (one.has.size() == 1) begin(i);
      }
      if (one.there && one.has.empty() && i > 0) out.Lost(i), one.there = false;
    }
    Busy* first = nullptr;
    for (Busy& one : busy)
      if (!one.has.empty() && (first == nullptr || one.until < first->until)) first = &one;
    if (first == nullptr) break;
    const auto worker = static_cast<std::size_t>(first - busy.data());
    now = first->until;
    if (workers[worker].goes_at && ++first->ends > *workers[worker].goes_at) {
      out.Lost(worker);
      first->there = false;
      first->has.clear();
      continue;
    }
    for (std::uint64_t g = first->has.front().first; g < first->has.front().end; ++g) ++played.times[g];
    out.Ended(worker, now);
    first->has.pop_front();
    if (!first->has.empty()) begin(worker);
  }
  played.end_s = SecondsOf(now - Instant{});
  return played;
}

TEST(HandOut, GivesFasterNodesMoreAndSlowOnesNothingAtTheEnd) {
  HandOut out({0, 240}, {100, 10});
  EXPECT_EQ(out.Take(0, kAnyFits, Instant{}).count(), 109u);  // half of what it will have run at the end
  EXPECT_EQ(out.Take(1, kAnyFits, Instant{}).count(), 6u);
  out.Ended(0, Instant{} + milliseconds(1090));
  EXPECT_EQ(out.Foreseen(1), milliseconds(600));
  std::uint64_t last = 1000;
  Instant now = Instant{} + milliseconds(1090);
  for (GroupRange range; !(range = out.Take(0, kAnyFits, now)).empty();) {
    EXPECT_LE(range.count(), last);
    last = range.count();
    now += FromSeconds(static_cast<double>(range.count()) / 100);
    out.Ended(0, now);
  }
  EXPECT_FALSE(out.Done());
  out.Ended(1, Instant{} + seconds(3));
  EXPECT_TRUE(out.Done());
}

TEST(HandOut, LeavesTheLastGroupsToTheFaster) {
  HandOut out({0, 5}, {100, 10});
  EXPECT_TRUE(out.Take(1, kAnyFits, Instant{}).empty());
  EXPECT_FALSE(out.Alone(1));  // the faster worker has not begun yet, but will
  out.Lost(0);
  EXPECT_TRUE(out.Alone(1));
  EXPECT_FALSE(out.Take(1, kAnyFits, Instant{}).empty());
}

TEST(HandOut, ABusyNodeTakesMoreUnlessOthersWouldFinishFirst) {
  HandOut out({0, 1000}, {100, 100});
  const std::uint64_t first = out.Take(1, kAnyFits, Instant{}).count();
  EXPECT_EQ(first, 200u);                                     // two seconds, the longest range
  EXPECT_EQ(out.Take(1, kAnyFits, Instant{}).count(), 150u);  // half of its remaining three seconds
  EXPECT_EQ(out.Foreseen(1), milliseconds(3500));
  out.Ended(1, Instant{} + seconds(2));
  EXPECT_EQ(out.Foreseen(1), milliseconds(1500));
  out.Ended(1, Instant{} + milliseconds(3000));  // in one second: time counts from the end of the previous range
  EXPECT_EQ(out.rate(1), 150);

  HandOut nearly({0, 13}, {100, 40});
  EXPECT_FALSE(nearly.Take(1, kAnyFits, Instant{}).empty());
  EXPECT_TRUE(nearly.Take(1, kAnyFits, Instant{}).empty());

  HandOut unknown({0, 1000}, {0, 0});
  EXPECT_FALSE(unknown.Take(1, kAnyFits, Instant{}).empty());
  EXPECT_TRUE(unknown.Take(1, kAnyFits, Instant{}).empty());  // until its rate is known
}

TEST(HandOut, GroupsOfALostNodeGoToOthers) {
  HandOut out({0, 1000}, {100, 100});
  const GroupRange first = out.Take(1, kAnyFits, Instant{}), second = out.Take(1, kAnyFits, Instant{});
  out.Lost(1);
  std::uint64_t groups = 0;
  for (GroupRange range; !(range = out.Take(0, kAnyFits, Instant{})).empty(); out.Ended(0, Instant{}))
    groups += range.count();
  EXPECT_EQ(groups, 1000u);
  EXPECT_FALSE(first.empty() || second.empty());
  EXPECT_TRUE(out.Done());
}

TEST(HandOut, GroupsThatNoNodeCanHoldRemain) {
  HandOut out({0, 8}, {0});
  EXPECT_TRUE(out.Take(
                     0, [](const GroupRange&) { return false; }, Instant{})
                  .empty());
  EXPECT_FALSE(out.Done());
}

RC_GTEST_PROP(HandOutLaws, EachGroupRunsOnceWhicheverNodesLeave, ()) {
  const auto groups = *rc::gen::inRange<std::uint64_t>(1, 2000);
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  std::vector<FarWorker> workers(count);
  for (std::size_t i = 0; i < count; ++i) {
    workers[i].speed = std::pow(10.0, *rc::gen::inRange(-1, 5));
    workers[i].most = *rc::gen::inRange<std::uint64_t>(1, 500);
    workers[i].depth = *rc::gen::inRange<std::size_t>(1, 4);
    if (i > 0 && *rc::gen::arbitrary<bool>()) workers[i].goes_at = *rc::gen::inRange(0, 6);
  }
  const HandedOut played = PlayHandOut(groups, workers);
  RC_ASSERT(std::ranges::all_of(played.times, [](int times) { return times == 1; }));
}

/// Compared with the time of all workers together if groups could be cut at will. The excess is due to unknown rates at
/// the start and the last range at the end.
RC_GTEST_PROP(HandOutLaws, AllEndNearlyAtOnce, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  std::vector<FarWorker> workers(count);
  double sum = 0, slowest = 1e9, fastest = 0;
  for (FarWorker& one : workers) {
    one.speed = *rc::gen::inRange(20, 400);
    one.depth = *rc::gen::inRange<std::size_t>(1, 3);
    sum += one.speed;
    slowest = std::min(slowest, one.speed);
    fastest = std::max(fastest, one.speed);
  }
  const auto groups = *rc::gen::inRange<std::uint64_t>(400, 4000);
  const HandedOut played = PlayHandOut(groups, workers);
  const double first_piece_s = static_cast<double>(groups / HandOutParams{}.first_of) / slowest;
  const double ideal_s = static_cast<double>(groups) / sum;
  RC_ASSERT(played.end_s <= std::max(ideal_s, first_piece_s) + 2 * SecondsOf(HandOutParams{}.shortest) + 2 / slowest);
}

}  // namespace
}  // namespace weir::core
