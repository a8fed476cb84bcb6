// SPDX-License-Identifier: Apache-2.0
#include "core/placement/run_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace weir::core {
namespace {

const DeviceCapacity kTwoAtOnce{.memory = MiB(400), .runs_max = 2, .loads = {100, 100, 100, 100}};

RunNeed Needing(std::uint64_t mib) { return {MiB(mib), {10, 10, 10, 10}, 100}; }

RunQueue QueueBy(std::string_view name) { return RunQueue(MakePlacement(name, {}).value()); }

TEST(RunQueue, StartsWaitingRunsInOrderOfArrival) {
  RunQueue queue = QueueBy("interference-aware");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(DeviceId{1}, kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2, 3, 4})
    ASSERT_TRUE(queue.Submit(RunId{id}, Needing(id == 3 ? 400 : 100), actions));
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(queue.waiting(), 2U);
  ASSERT_TRUE(queue.Done(RunId{1}, {}, actions));
  EXPECT_EQ(actions.size(), 2U) << "4 would fit, but 3 came first";
  ASSERT_TRUE(queue.Done(RunId{2}, {}, actions));
  EXPECT_EQ(actions.back().run, RunId{3});
  ASSERT_TRUE(queue.Done(RunId{3}, {}, actions));
  EXPECT_EQ(actions.back().run, RunId{4});
}

TEST(RunQueue, RefusesARunThatNoDeviceCanHold) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.Submit(RunId{1}, Needing(500), actions));
  EXPECT_TRUE(actions.empty()) << "no device is known yet";
  ASSERT_TRUE(queue.AddDevice(DeviceId{1}, kTwoAtOnce, actions));
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, RunAction::Kind::kRefuse);
  EXPECT_EQ(Words(actions[0].choice), "refused: no device has that much memory");
  EXPECT_EQ(queue.waiting(), 0U);
}

TEST(RunQueue, RunsOfALostDeviceRunAgainBeforeThoseThatWait) {
  RunQueue queue = QueueBy("round-robin");
  std::vector<RunAction> actions;
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.AddDevice(DeviceId{id}, kTwoAtOnce, actions));
  for (std::uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(queue.Submit(RunId{id}, Needing(100), actions));
  actions.clear();
  ASSERT_TRUE(queue.LoseDevice(DeviceId{2}, actions));
  EXPECT_TRUE(actions.empty());
  for (const std::uint64_t id : {1, 3}) ASSERT_TRUE(queue.Done(RunId{id}, {}, actions));
  std::vector<RunId> started;
  for (const RunAction& action : actions) started.push_back(action.run);
  EXPECT_EQ(started, (std::vector{RunId{2}, RunId{4}}));
  EXPECT_EQ(queue.LoseDevice(DeviceId{2}, actions).error().code, Errc::kNotFound);
}

TEST(RunQueue, RefusesDuplicateIdsAndUnknownEnds) {
  RunQueue queue = QueueBy("serial");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(DeviceId{1}, kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.Submit(RunId{id}, Needing(1), actions));
  EXPECT_EQ(queue.Submit(RunId{1}, Needing(1), actions).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(queue.Submit(RunId{2}, Needing(1), actions).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(queue.Done(RunId{2}, {}, actions).error().code, Errc::kNotFound);
}

TEST(RunQueue, AcceptsRunsAlreadyInProgress) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(DeviceId{1}, kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.Resume(RunId{id}, Needing(100), DeviceId{1}));
  EXPECT_EQ(queue.Resume(RunId{3}, Needing(100), DeviceId{1}).error().code, Errc::kResourceExhausted);
  ASSERT_TRUE(queue.Submit(RunId{3}, Needing(100), actions));
  EXPECT_EQ(queue.Resume(RunId{3}, Needing(100), DeviceId{1}).error().code, Errc::kAlreadyExists);
  EXPECT_TRUE(actions.empty());
  ASSERT_TRUE(queue.Done(RunId{1}, {}, actions));
  EXPECT_EQ(actions.back().run, RunId{3});
}

TEST(RunQueue, WithdrawnRunsMakeRoomForThoseBehind) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(DeviceId{1}, kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2, 3, 4})
    ASSERT_TRUE(queue.Submit(RunId{id}, Needing(id == 3 ? 400 : 100), actions));
  ASSERT_TRUE(queue.Withdraw(RunId{1}, actions));
  EXPECT_EQ(actions.size(), 2U) << "3 needs all of it";
  ASSERT_TRUE(queue.Withdraw(RunId{3}, actions));
  EXPECT_EQ(actions.back().run, RunId{4});
  EXPECT_EQ(queue.Withdraw(RunId{3}, actions).error().code, Errc::kNotFound);
  EXPECT_EQ(queue.waiting(), 0U);
}

TEST(RunQueue, LearnsFromFinishedRuns) {
  RunQueue queue = QueueBy("interference-aware");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(DeviceId{1}, kTwoAtOnce, actions));
  ASSERT_TRUE(queue.Submit(RunId{1}, {MiB(1), {0, 100, 0, 0}, 100}, actions));
  ASSERT_TRUE(queue.Done(RunId{1}, {.slowdown = 4, .beside = {0, 100, 0, 0}, .neighbours = 0}, actions));
  EXPECT_NEAR(queue.placement().model()->weights()[1], 3, 0.05);
}

/// Every submitted run is started or refused, exactly once unless its device is lost; a device never runs more than it
/// holds.
RC_GTEST_PROP(RunQueueLaws, EveryRunComesToItsEndOnce, ()) {
  const auto name =
      *rc::gen::elementOf(std::vector<std::string>{"interference-aware", "serial", "round-robin", "binpack", "spread"});
  RunQueue queue = QueueBy(name);
  std::vector<RunAction> actions;
  std::set<RunId> submitted, running, ended;
  std::uint64_t next = 1;
  const auto carry = [&] {
    for (const RunAction& action : actions) {
      RC_ASSERT(submitted.contains(action.run) && !running.contains(action.run) && !ended.contains(action.run));
      if (action.kind == RunAction::Kind::kStart) {
        RC_ASSERT(queue.cluster().DeviceOf(action.run) == action.choice.device);
        running.insert(action.run);
      } else {
        ended.insert(action.run);
      }
    }
    actions.clear();
    RC_ASSERT(running.size() == queue.cluster().runs());
    RC_ASSERT(submitted.size() == running.size() + ended.size() + queue.waiting());
  };
  const auto end_one = [&](std::size_t which) {
    const RunId run = *std::next(running.begin(), static_cast<std::ptrdiff_t>(which % running.size()));
    running.erase(run);
    ended.insert(run);
    RC_ASSERT(queue.Done(run, {}, actions).has_value());
    carry();
  };
  for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1'000))) {
    const DeviceId device{static_cast<std::uint64_t>(step / 10 % 3 + 1)};
    if (step % 10 == 0) {
      (void)queue.AddDevice(device, kTwoAtOnce, actions).has_value();
    } else if (step % 10 == 1) {
      for (const RunId run : queue.cluster().RunsOn(device)) running.erase(run);
      (void)queue.LoseDevice(device, actions).has_value();
    } else if (step % 10 < 5 && !running.empty()) {
      end_one(static_cast<std::size_t>(step));
    } else {
      submitted.insert(RunId{next});
      RC_ASSERT(queue.Submit(RunId{next++}, Needing(static_cast<std::uint64_t>(step)), actions).has_value());
    }
    carry();
  }
  (void)queue.AddDevice(DeviceId{9}, kTwoAtOnce, actions).has_value();
  carry();
  while (!running.empty()) end_one(0);
  RC_ASSERT(ended == submitted);
}

}  // namespace
}  // namespace weir::core
