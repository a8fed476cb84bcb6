// SPDX-License-Identifier: Apache-2.0
#include "emulator/opencl/timeline.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>

namespace weir::emulator::cl {
namespace {

constexpr Instant At(std::int64_t us) { return Instant{microseconds(us)}; }
const Work kKernel{.cost = Work::Cost::kKnown, .time = microseconds(5)};
const Work kMeasured{.cost = Work::Cost::kMeasured, .factor = 0.5};
const Work kFree{};

std::vector<CommandId> Commands(const std::vector<Timeline::Submission>& submissions) {
  std::vector<CommandId> ids;
  for (const auto& one : submissions) ids.push_back(one.command);
  return ids;
}
std::vector<CommandId> Commands(const std::vector<Timeline::End>& ends) {
  std::vector<CommandId> ids;
  for (const auto& one : ends) ids.push_back(one.command);
  return ids;
}
using Ids = std::vector<CommandId>;

TEST(ClTimeline, ACommandIsCompleteWhenItIsComputedAndModelled) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, true, 0);
  const CommandId first = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  const CommandId second = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  EXPECT_EQ(Commands(timeline.TakeSubmissions()), (Ids{first, second}));  // the model's queue keeps the order
  timeline.Modelled(At(10), first, At(2), At(7));
  EXPECT_TRUE(timeline.TakeEnds().empty());
  timeline.Computed(At(20), first, 0, {});
  timeline.Computed(At(21), second, 0, {});
  const auto ends = timeline.TakeEnds();
  ASSERT_EQ(Commands(ends), Ids{first});
  EXPECT_EQ(ends[0].times.queued, At(1));
  EXPECT_EQ(ends[0].times.began, At(2));
  EXPECT_EQ(ends[0].times.ended, At(7));
  EXPECT_FALSE(timeline.Done(queue, second));
  timeline.Modelled(At(30), second, At(7), At(12));
  EXPECT_EQ(Commands(timeline.TakeEnds()), Ids{second});
  EXPECT_TRUE(timeline.Done(queue, second));
}

TEST(ClTimeline, AMeasuredCommandIsSubmittedOnceItIsComputed) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(3, true, 0);
  const CommandId measured = timeline.Add(At(1), queue, Timeline::Order::kCommand, kMeasured, {});
  const CommandId known = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  EXPECT_TRUE(timeline.TakeSubmissions().empty());
  timeline.Computed(At(9), measured, 0, microseconds(8));
  const auto submitted = timeline.TakeSubmissions();
  ASSERT_EQ(Commands(submitted), (Ids{measured, known}));
  EXPECT_EQ(submitted[0].work, microseconds(4));
  EXPECT_EQ(submitted[0].device, 3U);
}

TEST(ClTimeline, ACommandWaitsForItsWaitListInOtherQueues) {
  Timeline timeline;
  const auto one = timeline.AddQueue(0, true, 0);
  const auto two = timeline.AddQueue(0, true, 0);
  const CommandId before = timeline.Add(At(1), one, Timeline::Order::kCommand, kKernel, {});
  const CommandId after = timeline.Add(At(1), two, Timeline::Order::kCommand, kKernel, Ids{before});
  EXPECT_EQ(Commands(timeline.TakeSubmissions()), Ids{before});
  timeline.Modelled(At(6), before, At(1), At(6));
  EXPECT_TRUE(timeline.TakeSubmissions().empty());  // it is not computed
  timeline.Computed(At(7), before, 0, {});
  EXPECT_EQ(Commands(timeline.TakeSubmissions()), Ids{after});
}

TEST(ClTimeline, QueuesOutOfOrderHaveSeveralLanesAndBarriers) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, false, 0);
  const CommandId a = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  const CommandId b = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  const CommandId barrier = timeline.Add(At(1), queue, Timeline::Order::kBarrier, kFree, {});
  const CommandId c = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  const auto submitted = timeline.TakeSubmissions();
  ASSERT_EQ(Commands(submitted), (Ids{a, b}));
  EXPECT_NE(submitted[0].lane, submitted[1].lane);
  for (const CommandId id : {a, b, barrier, c}) timeline.Computed(At(2), id, 0, {});
  timeline.Modelled(At(3), b, At(2), At(3));
  EXPECT_EQ(Commands(timeline.TakeEnds()), Ids{b});
  timeline.Modelled(At(4), a, At(2), At(4));
  EXPECT_EQ(Commands(timeline.TakeEnds()), (Ids{a, barrier}));
  EXPECT_EQ(Commands(timeline.TakeSubmissions()), Ids{c});
}

TEST(ClTimeline, AUserEventThatFailsFailsWhatWaitsForIt) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, true, 0);
  const CommandId user = timeline.AddUserEvent(At(1));
  const CommandId first = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, Ids{user});
  const CommandId second = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, Ids{first});
  timeline.SetUserEvent(At(2), user, -5);
  const auto ends = timeline.TakeEnds();
  ASSERT_EQ(Commands(ends), (Ids{user, first, second}));
  EXPECT_EQ(ends[0].status, -5);
  EXPECT_EQ(ends[1].status, Timeline::kWaitListFailed);
  EXPECT_EQ(ends[2].status, Timeline::kWaitListFailed);
  EXPECT_TRUE(timeline.TakeSubmissions().empty());
}

TEST(ClTimeline, ADeviceHasNoMoreCommandsOfALaneThanItHolds) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, true, 2);
  Ids ids;
  for (int i = 0; i < 5; ++i) ids.push_back(timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {}));
  EXPECT_EQ(timeline.TakeSubmissions().size(), 2U);
  timeline.Modelled(At(2), ids[0], At(1), At(2));
  EXPECT_EQ(Commands(timeline.TakeSubmissions()), Ids{ids[2]});
}

TEST(ClTimeline, LanesOfRemovedQueuesAreReused) {
  Timeline timeline;
  for (int i = 0; i < 1000; ++i) {
    const auto queue = timeline.AddQueue(0, true, 0);
    const CommandId id = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
    const auto submitted = timeline.TakeSubmissions();
    ASSERT_EQ(submitted.size(), 1U);
    EXPECT_EQ(submitted[0].lane, 0U);
    timeline.RemoveQueue(queue);
    timeline.Computed(At(1), id, 0, {});
    timeline.Modelled(At(2), id, At(1), At(2));
    EXPECT_EQ(timeline.TakeEnds().size(), 1U);
  }
}

TEST(ClTimeline, ManyQueuesShareLanes) {
  Timeline timeline;
  std::set<std::uint32_t> lanes;
  for (int i = 0; i < 1000; ++i)
    timeline.Add(At(1), timeline.AddQueue(i % 64, true, 0), Timeline::Order::kCommand, kKernel, {});
  const auto submitted = timeline.TakeSubmissions();
  EXPECT_EQ(submitted.size(), 1000U);
  for (const auto& one : submitted) lanes.insert(one.lane);
  EXPECT_LE(lanes.size(), Timeline::kLanesMax + 64);
}

TEST(ClTimeline, WithoutTheModelACommandIsCompleteWhenItIsComputed) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, true, 0);
  const CommandId flying = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  timeline.Computed(At(2), flying, 0, {});
  timeline.Abandon(At(3));
  EXPECT_EQ(Commands(timeline.TakeEnds()), Ids{flying});
  timeline.TakeSubmissions();
  const CommandId later = timeline.Add(At(4), queue, Timeline::Order::kCommand, kMeasured, {});
  timeline.Computed(At(5), later, 0, {});
  EXPECT_EQ(Commands(timeline.TakeEnds()), Ids{later});
  EXPECT_TRUE(timeline.TakeSubmissions().empty());
}

TEST(ClTimeline, WhatTheDeviceFailsIsCompleteOnceItIsComputed) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, true, 0), other = timeline.AddQueue(0, true, 0);
  const CommandId first = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  const CommandId second = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  const CommandId waits = timeline.Add(At(1), other, Timeline::Order::kCommand, kKernel, Ids{first});
  timeline.Failed(At(2), first);
  timeline.Failed(At(2), second);
  EXPECT_TRUE(timeline.TakeEnds().empty());
  timeline.Computed(At(3), first, 0, {});
  auto ends = timeline.TakeEnds();
  ASSERT_EQ(Commands(ends), Ids{first});
  EXPECT_EQ(ends[0].status, Timeline::kDeviceFailed);
  timeline.Computed(At(4), waits, 0, {});
  ends = timeline.TakeEnds();
  ASSERT_EQ(Commands(ends), Ids{waits});
  EXPECT_EQ(ends[0].status, Timeline::kWaitListFailed);
  timeline.Computed(At(5), second, 0, {});
  EXPECT_EQ(Commands(timeline.TakeEnds()), Ids{second});
}

TEST(ClTimeline, WhatAUserEventHoldsIsNotComputed) {
  Timeline timeline;
  const auto one = timeline.AddQueue(0, true, 0);
  const auto two = timeline.AddQueue(0, false, 0);
  EXPECT_FALSE(timeline.Computing(timeline.Next()));
  const CommandId user = timeline.AddUserEvent(At(1));
  const CommandId held = timeline.Add(At(1), one, Timeline::Order::kCommand, kKernel, Ids{user});
  timeline.Add(At(1), one, Timeline::Order::kCommand, kKernel, {});  // behind it in an in-order queue
  timeline.Add(At(1), two, Timeline::Order::kCommand, kKernel, Ids{held});
  EXPECT_FALSE(timeline.Computing(timeline.Next()));
  const CommandId free = timeline.Add(At(1), two, Timeline::Order::kCommand, kKernel, {});
  EXPECT_TRUE(timeline.Computing(timeline.Next()));
  EXPECT_FALSE(timeline.Computing(free)) << "it was added later";
  timeline.Computed(At(2), free, 0, {});  // the model has not ended it
  EXPECT_FALSE(timeline.Computing(timeline.Next()));
  timeline.SetUserEvent(At(3), user, 0);
  EXPECT_TRUE(timeline.Computing(timeline.Next()));
}

TEST(ClTimeline, WhatTheDeviceHasFailedIsStillComputed) {
  Timeline timeline;
  const auto queue = timeline.AddQueue(0, true, 0);
  const CommandId lost = timeline.Add(At(1), queue, Timeline::Order::kCommand, kKernel, {});
  timeline.Failed(At(2), lost);
  EXPECT_TRUE(timeline.Computing(timeline.Next()));
  timeline.Computed(At(3), lost, 0, {});
  EXPECT_FALSE(timeline.Computing(timeline.Next()));
}

// -- Laws ------------------------------------------------------------------------------------------------------------

/// Draws programs of commands over several queues, plays a model and a CPU driver, and checks every end.
class Player {
 public:
  Player() {
    for (int i = 0; i < 3; ++i) {
      in_order_.push_back(*rc::gen::arbitrary<bool>());
      queues_.push_back(timeline_.AddQueue(i == 2 ? 1 : 0, in_order_.back(), *rc::gen::inRange(0, 4)));
    }
  }

  void Step() {
    now_ += microseconds(*rc::gen::inRange(1, 100));
    switch (*rc::gen::inRange(0, 7)) {
      case 0:
      case 1:
      case 2: Add(); break;
      case 3: Compute(*rc::gen::inRange(0, 8) == 0 ? -6 : 0); break;
      case 4: Model(*rc::gen::inRange(0, 5) == 0); break;
      case 5: AddUser(); break;
      default: SetUser(*rc::gen::inRange(0, 3) == 0 ? -7 : 0); break;
    }
    Check();
  }

  /// Ends everything that is still open. Then nothing may be left.
  void Drain() {
    while (!users_.empty()) SetUser(0), Check();
    for (bool did = true; did;) {
      now_ += microseconds(1);
      did = Compute(0);
      Check();
      did |= Model();
      Check();
    }
    for (const auto& [id, one] : known_) RC_ASSERT(one.ended || one.user);
    for (const auto queue : queues_) RC_ASSERT(timeline_.Done(queue, timeline_.Last(queue)));
  }

 private:
  struct Known {
    std::size_t queue = 0;
    bool user = false, in_order = false, measured = false, costs = false;
    std::vector<CommandId> waits;
    bool submitted = false, computed = false, modelled = false, ended = false;
    bool device_failed = false;
    bool refused = false;  // refused when it was added, so that PoCL does not have it
    bool lost = false;     // the device has failed this command, or one that it waits for
    int computed_status = 0, status = 0;
    Instant model_end{};
  };

  void Add() {
    Known one{.queue = static_cast<std::size_t>(*rc::gen::inRange(0, 3)), .waits = {}};
    one.in_order = in_order_[one.queue];
    const int kind = *rc::gen::inRange(0, 5);
    one.measured = kind == 1;
    one.costs = kind < 3;
    bool failed = false, lost = true;
    for (int i = *rc::gen::inRange(0, 4); i > 0 && !known_.empty(); --i) {
      const auto& [id, before] = *std::next(known_.begin(), *rc::gen::inRange<std::size_t>(0, known_.size()));
      one.waits.push_back(id);
      failed |= before.ended && before.status < 0;
      lost &= !before.ended || before.status >= 0 || before.lost;
    }
    const auto order = kind == 3   ? Timeline::Order::kMarker
                       : kind == 4 ? Timeline::Order::kBarrier
                                   : Timeline::Order::kCommand;
    const CommandId id = timeline_.Add(now_, queues_[one.queue], order,
                                       one.measured ? kMeasured
                                       : one.costs  ? kKernel
                                                    : kFree,
                                       one.waits,
                                       !failed ? Timeline::Before::kGood
                                       : lost  ? Timeline::Before::kLost
                                               : Timeline::Before::kFailed);
    order_[one.queue].push_back(id);
    one.refused = failed && !lost;
    if (!one.refused) uncomputed_[one.queue].push_back(id);
    known_.emplace(id, std::move(one));
  }
  void AddUser() {
    const CommandId id = timeline_.AddUserEvent(now_);
    known_.emplace(id, Known{.user = true, .waits = {}});
    users_.push_back(id);
  }
  void SetUser(int status) {
    if (users_.empty()) return;
    timeline_.SetUserEvent(now_, users_.front(), status);
    users_.pop_front();
  }
  /// Computes a command as PoCL does: in order in an in-order queue, and never before the wait list is computed.
  bool Compute(int status) {
    for (auto& [queue, left] : uncomputed_)
      for (auto at = left.begin(); at != left.end(); ++at) {
        Known& one = known_.at(*at);
        const bool ready = one.ended || std::ranges::all_of(one.waits, [&](CommandId id) {
                             return known_.at(id).computed || known_.at(id).ended;
                           });
        if (ready) {
          one.computed = true;
          one.computed_status = status;
          timeline_.Computed(now_, *at, status, microseconds(10));
          left.erase(at);
          return true;
        }
        if (in_order_[queue]) break;
      }
    return false;
  }
  bool Model(bool fails = false) {
    for (auto& [lane, left] : lanes_) {
      if (left.empty()) continue;
      const CommandId id = left.front();
      left.pop_front();
      Known& one = known_.at(id);
      one.modelled = true;
      one.model_end = now_;
      one.device_failed = fails;
      if (fails)
        timeline_.Failed(now_, id);
      else
        timeline_.Modelled(now_, id, now_ - microseconds(1), now_);
      return true;
    }
    return false;
  }

  /// A command that fails never goes to the model.
  bool Fails(CommandId id) {
    const Known& one = known_.at(id);
    return one.status < 0 || one.computed_status < 0 ||
           std::any_of(one.waits.begin(), one.waits.end(), [this](CommandId before) { return Fails(before); });
  }

  void Check() {
    for (const auto& end : timeline_.TakeEnds()) {
      Known& one = known_.at(end.command);
      RC_ASSERT(!one.ended);
      RC_ASSERT(!end.lost || (one.computed && !one.refused));
      one.ended = true;
      one.status = end.status;
      if (one.user) continue;
      bool failed = false;
      for (const CommandId id : one.waits) failed |= known_.at(id).status < 0;
      one.lost = end.lost;
      RC_ASSERT(!end.lost || one.device_failed || end.status == Timeline::kWaitListFailed);
      if (failed) {
        RC_ASSERT(end.status < 0);
      } else {
        RC_ASSERT(end.status == one.computed_status || end.status == Timeline::kWaitListFailed ||
                  (end.status == Timeline::kDeviceFailed && one.device_failed));
        RC_ASSERT(one.computed || end.status < 0);
        RC_ASSERT(end.status < 0 || !one.costs || one.modelled);
        RC_ASSERT(end.status < 0 || !one.costs || end.times.ended == one.model_end);
        RC_ASSERT(end.status < 0 || std::ranges::all_of(one.waits, [&](CommandId id) { return known_.at(id).ended; }));
      }
      RC_ASSERT(end.times.queued <= end.times.submitted);
      if (one.in_order)
        for (const CommandId id : order_[one.queue]) {
          if (id >= end.command) break;
          RC_ASSERT(known_.at(id).ended);
        }
    }
    for (const auto& submission : timeline_.TakeSubmissions()) {
      Known& one = known_.at(submission.command);
      RC_ASSERT(!one.submitted);
      RC_ASSERT(one.costs);
      RC_ASSERT(!one.measured || one.computed);
      for (const CommandId id : one.waits) {
        const Known& before = known_.at(id);
        RC_ASSERT(before.ended || (one.in_order && !before.user && before.queue == one.queue));
      }
      if (one.in_order)
        for (const CommandId id : order_[one.queue]) {
          if (id >= submission.command) break;
          RC_ASSERT(known_.at(id).submitted || known_.at(id).ended || !known_.at(id).costs || Fails(id));
        }
      one.submitted = true;
      lanes_[{submission.device, submission.lane}].push_back(submission.command);
    }
  }

  Timeline timeline_;
  Instant now_ = At(1);
  std::vector<bool> in_order_;
  std::vector<Timeline::QueueId> queues_;
  std::map<CommandId, Known> known_;
  std::map<std::size_t, std::vector<CommandId>> order_, uncomputed_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<CommandId>> lanes_;
  std::deque<CommandId> users_;
};

RC_GTEST_PROP(ClTimeline, EveryCommandEndsOnceInOrderAndNotEarly, ()) {
  Player player;
  for (int i = *rc::gen::inRange(0, 120); i > 0; --i) player.Step();
  player.Drain();
}

}  // namespace
}  // namespace weir::emulator::cl
