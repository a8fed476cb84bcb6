// SPDX-License-Identifier: Apache-2.0
#include "core/placement/run_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace weir::core {
namespace {

constexpr Instant kNow{};
const DeviceCapacity kTwoAtOnce{.memory = MiB(400), .runs_max = 2, .loads = {100, 100, 100, 100}};

RunNeed Needing(std::uint64_t mib) { return {MiB(mib), {10, 10, 10, 10}, 100}; }

std::string NameOf(DeviceId device) { return "device" + std::to_string(device.value); }

RunQueue QueueBy(std::string_view name) { return RunQueue(MakePlacement(name, {}).value()); }

TEST(RunQueue, StartsWaitingRunsInOrderOfArrival) {
  RunQueue queue = QueueBy("interference-aware");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2, 3, 4})
    ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(id == 3 ? 400 : 100)}, actions));
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(queue.waiting(), 2U);
  ASSERT_TRUE(queue.Done(kNow, RunId{1}, {}, actions));
  EXPECT_EQ(actions.size(), 2U) << "4 would fit, but 3 came first";
  ASSERT_TRUE(queue.Done(kNow, RunId{2}, {}, actions));
  EXPECT_EQ(actions.back().run, RunId{3});
  ASSERT_TRUE(queue.Done(kNow, RunId{3}, {}, actions));
  EXPECT_EQ(actions.back().run, RunId{4});
}

TEST(RunQueue, RefusesARunThatNoDeviceCanHold) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.Submit(kNow, RunId{1}, {Needing(500)}, actions));
  EXPECT_TRUE(actions.empty()) << "no device is known yet";
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, RunAction::Kind::kRefuse);
  EXPECT_EQ(Words(actions[0].choice), "refused: no device has that much memory");
  EXPECT_EQ(queue.waiting(), 0U);
}

TEST(RunQueue, RunsOfALostDeviceRunAgainBeforeThoseThatWait) {
  RunQueue queue = QueueBy("round-robin");
  std::vector<RunAction> actions;
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{id}, "", kTwoAtOnce, actions));
  for (std::uint64_t id = 1; id <= 6; ++id) ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(100)}, actions));
  actions.clear();
  ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{2}, {}, actions));
  EXPECT_TRUE(actions.empty());
  for (const std::uint64_t id : {1, 3}) ASSERT_TRUE(queue.Done(kNow, RunId{id}, {}, actions));
  std::vector<RunId> started;
  for (const RunAction& action : actions) started.push_back(action.run);
  EXPECT_EQ(started, (std::vector{RunId{2}, RunId{4}}));
  EXPECT_EQ(queue.LoseDevice(kNow, DeviceId{2}, {}, actions).error().code, Errc::kNotFound);
}

TEST(RunQueue, RefusesDuplicateIdsAndUnknownEnds) {
  RunQueue queue = QueueBy("serial");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(1)}, actions));
  EXPECT_EQ(queue.Submit(kNow, RunId{1}, {Needing(1)}, actions).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(queue.Submit(kNow, RunId{2}, {Needing(1)}, actions).error().code, Errc::kAlreadyExists);
  EXPECT_EQ(queue.Done(kNow, RunId{2}, {}, actions).error().code, Errc::kNotFound);
}

TEST(RunQueue, AcceptsRunsAlreadyInProgress) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.Resume(kNow, RunId{id}, {Needing(100)}, DeviceId{1}));
  EXPECT_EQ(queue.Resume(kNow, RunId{3}, {Needing(100)}, DeviceId{1}).error().code, Errc::kResourceExhausted);
  ASSERT_TRUE(queue.Submit(kNow, RunId{3}, {Needing(100)}, actions));
  EXPECT_EQ(queue.Resume(kNow, RunId{3}, {Needing(100)}, DeviceId{1}).error().code, Errc::kAlreadyExists);
  EXPECT_TRUE(actions.empty());
  ASSERT_TRUE(queue.Done(kNow, RunId{1}, {}, actions));
  EXPECT_EQ(actions.back().run, RunId{3});
}

TEST(RunQueue, WithdrawnRunsMakeRoomForThoseBehind) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2, 3, 4})
    ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(id == 3 ? 400 : 100)}, actions));
  ASSERT_TRUE(queue.Withdraw(kNow, RunId{1}, actions));
  EXPECT_EQ(actions.size(), 2U) << "3 needs all of it";
  ASSERT_TRUE(queue.Withdraw(kNow, RunId{3}, actions));
  EXPECT_EQ(actions.back().run, RunId{4});
  EXPECT_EQ(queue.Withdraw(kNow, RunId{3}, actions).error().code, Errc::kNotFound);
  EXPECT_EQ(queue.waiting(), 0U);
}

TEST(RunQueue, LearnsFromFinishedRuns) {
  RunQueue queue = QueueBy("interference-aware");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  ASSERT_TRUE(queue.Submit(kNow, RunId{1}, {{MiB(1), {0, 100, 0, 0}, 100}}, actions));
  ASSERT_TRUE(queue.Done(kNow, RunId{1}, {.slowdown = 4, .beside = {0, 100, 0, 0}, .neighbours = 0}, actions));
  EXPECT_NEAR(queue.placement().model()->weights()[1], 3, 0.05);
}

TEST(RunQueue, ARunWaitsForTheDeviceThatItNamesAndLaterRunsUseOthers) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "first", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2, 3})
    ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {.need = Needing(id == 3 ? 50 : 300), .device = "second"}, actions));
  EXPECT_EQ(queue.WaitingFor("second"), 3U);
  ASSERT_TRUE(queue.Submit(kNow, RunId{4}, {Needing(100)}, actions));
  EXPECT_EQ(queue.cluster().DeviceOf(RunId{4}), DeviceId{1});
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{2}, "second", kTwoAtOnce, actions));
  EXPECT_EQ(queue.cluster().RunsOn(DeviceId{2}), std::vector{RunId{1}}) << "3 would fit, but 2 came first";
  EXPECT_EQ(actions.back().choice.reason, PlacementReason::kNamed);
  EXPECT_EQ(queue.WaitingFor("second"), 2U);
}

TEST(RunQueue, ARunThatNamesATooSmallDeviceIsRefusedAndDelaysNoOther) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "small", {.memory = MiB(100), .runs_max = 2}, actions));
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{2}, "large", {.memory = MiB(900), .runs_max = 2}, actions));
  ASSERT_TRUE(queue.Submit(kNow, RunId{1}, {.need = Needing(500), .device = "small"}, actions));
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, RunAction::Kind::kRefuse);
  ASSERT_TRUE(queue.Submit(kNow, RunId{2}, {.need = Needing(50), .device = "small"}, actions));
  EXPECT_EQ(queue.cluster().DeviceOf(RunId{2}), DeviceId{1});
  ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{2}, {.returns = true}, actions));
  ASSERT_TRUE(queue.Submit(kNow, RunId{3}, {.need = Needing(500), .device = "small"}, actions));
  EXPECT_EQ(actions.back().kind, RunAction::Kind::kRefuse) << "what returns is another device";
  ASSERT_TRUE(queue.Submit(kNow, RunId{4}, {.need = Needing(500), .device = "large"}, actions));
  EXPECT_EQ(queue.waiting(), 1U);
}

TEST(RunQueue, ARunOfALostDeviceRunsAloneIfTheLossSaysSo) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(1)}, actions));
  const std::array ended{RunId{1}};
  ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{1}, {.alone = true, .ended = ended}, actions));
  EXPECT_EQ(queue.waiting(), 1U) << "the other run has ended";
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{2}, "", kTwoAtOnce, actions));
  EXPECT_EQ(queue.cluster().RunsOn(DeviceId{2}), std::vector{RunId{2}});
  ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{2}, {.alone = true}, actions));
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  ASSERT_TRUE(queue.Submit(kNow, RunId{3}, {Needing(1)}, actions));
  EXPECT_EQ(queue.cluster().RunsOn(DeviceId{1}), std::vector{RunId{2}});
  ASSERT_TRUE(queue.Done(kNow, RunId{2}, {}, actions));
  EXPECT_EQ(queue.cluster().RunsOn(DeviceId{1}), std::vector{RunId{3}});
}

TEST(RunQueue, ARunThatRunsAloneWaitsForAnIdleDevice) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{id}, "", kTwoAtOnce, actions));
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(1)}, actions));
  ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{2}, {.alone = true}, actions));
  EXPECT_EQ(queue.waiting(), 1U);
  ASSERT_TRUE(queue.Done(kNow, RunId{1}, {}, actions));
  EXPECT_EQ(queue.cluster().RunsOn(DeviceId{1}), std::vector{RunId{2}});
}

TEST(RunQueue, ARunWaitsForALostDeviceThatReturns) {
  for (const bool returns : {true, false}) {
    RunQueue queue = QueueBy("spread");
    std::vector<RunAction> actions;
    for (const std::uint64_t id : {1, 2})
      ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{id}, "", {.memory = MiB(100 * id), .runs_max = 2}, actions));
    ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{2}, {.returns = returns}, actions));
    ASSERT_TRUE(queue.Submit(kNow, RunId{1}, {Needing(200)}, actions));
    EXPECT_EQ(queue.waiting(), returns ? 1U : 0U);
    for (const std::uint64_t id : {2, 3}) ASSERT_TRUE(queue.Submit(kNow, RunId{id}, {Needing(50)}, actions));
    EXPECT_EQ(queue.cluster().RunsOn(DeviceId{1}).size(), 2U) << "others use the devices that are there";
    ASSERT_TRUE(queue.Submit(kNow, RunId{4}, {Needing(50)}, actions));
    ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{3}, "", {.memory = MiB(200), .runs_max = 2}, actions));
    EXPECT_EQ(queue.cluster().DeviceOf(RunId{returns ? 1U : 4U}), DeviceId{3}) << "in their order";
  }
}

TEST(RunQueue, ARunIsRefusedWhenTheDeviceThatReturnsIsTooSmallNow) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "a", {.memory = MiB(100), .runs_max = 2}, actions));
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{2}, "b", {.memory = MiB(200), .runs_max = 2}, actions));
  ASSERT_TRUE(queue.LoseDevice(kNow, DeviceId{2}, {.returns = true}, actions));
  ASSERT_TRUE(queue.Submit(kNow, RunId{1}, {Needing(200)}, actions));
  EXPECT_EQ(queue.waiting(), 1U);
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{3}, "b", {.memory = MiB(150), .runs_max = 2}, actions));
  EXPECT_EQ(queue.waiting(), 0U);
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, RunAction::Kind::kRefuse);
}

TEST(RunQueue, ObservesWhatRunsBesideARun) {
  RunQueue queue = QueueBy("spread");
  std::vector<RunAction> actions;
  ASSERT_TRUE(queue.AddDevice(kNow, DeviceId{1}, "", kTwoAtOnce, actions));
  ASSERT_TRUE(queue.Submit(kNow, RunId{1}, {Needing(1)}, actions));
  ASSERT_TRUE(queue.Submit(kNow + milliseconds(100), RunId{2}, {Needing(1)}, actions));
  const RunSeen seen = queue.Beside(kNow + milliseconds(400), RunId{1}, 2);
  EXPECT_DOUBLE_EQ(seen.neighbours, 0.75);
  EXPECT_DOUBLE_EQ(seen.beside[0], 7.5);
  EXPECT_EQ(seen.slowdown, 2);
  ASSERT_TRUE(queue.Withdraw(kNow + milliseconds(400), RunId{2}, actions));
  EXPECT_DOUBLE_EQ(queue.Beside(kNow + milliseconds(600), RunId{1}).neighbours, 0.5);
  EXPECT_EQ(queue.Beside(kNow + milliseconds(600), RunId{2}).neighbours, 0);
}

/// Every submitted run is started or refused, and exactly once unless its device is lost. A device never runs more than
/// it can hold.
RC_GTEST_PROP(RunQueueLaws, EveryRunComesToItsEndOnce, ()) {
  const auto name =
      *rc::gen::elementOf(std::vector<std::string>{"interference-aware", "serial", "round-robin", "binpack", "spread"});
  RunQueue queue = QueueBy(name);
  std::vector<RunAction> actions;
  std::set<RunId> submitted, running, ended, alone;
  std::map<RunId, DeviceId> named;
  std::uint64_t next = 1;
  const auto carry = [&] {
    for (const RunAction& action : actions) {
      RC_ASSERT(submitted.contains(action.run) && !running.contains(action.run) && !ended.contains(action.run));
      if (action.kind == RunAction::Kind::kStart) {
        RC_ASSERT(queue.cluster().DeviceOf(action.run) == action.choice.device);
        if (const auto at = named.find(action.run); at != named.end()) RC_ASSERT(at->second == action.choice.device);
        if (alone.contains(action.run)) RC_ASSERT(queue.cluster().RunsOn(action.choice.device).size() == 1U);
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
    RC_ASSERT(queue.Done(kNow, run, {}, actions).has_value());
    carry();
  };
  for (const int step : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1'000))) {
    const DeviceId device{static_cast<std::uint64_t>(step / 10 % 3 + 1)};
    if (step % 10 == 0) {
      (void)queue.AddDevice(kNow, device, NameOf(device), kTwoAtOnce, actions).has_value();
    } else if (step % 10 == 1) {
      const DeviceLoss loss{.returns = step / 100 % 2 == 0, .alone = step / 200 % 2 == 0};
      for (const RunId run : queue.cluster().RunsOn(device)) {
        running.erase(run);
        alone.erase(run);
        if (loss.alone) alone.insert(run);
      }
      (void)queue.LoseDevice(kNow, device, loss, actions).has_value();
    } else if (step % 10 < 5 && !running.empty()) {
      end_one(static_cast<std::size_t>(step));
    } else {
      const RunId run{next++};
      submitted.insert(run);
      if (step / 30 % 3 == 0) named[run] = device;
      const std::string only = named.contains(run) ? NameOf(device) : "";
      const RunNeed need = Needing(static_cast<std::uint64_t>(step) / 2 + 1);
      RC_ASSERT(queue.Submit(kNow, run, {.need = need, .device = only}, actions).has_value());
    }
    carry();
  }
  for (const std::uint64_t id : {1, 2, 3})
    (void)queue.AddDevice(kNow, DeviceId{id}, NameOf(DeviceId{id}), kTwoAtOnce, actions).has_value();
  carry();
  while (!running.empty()) end_one(0);
  RC_ASSERT(ended == submitted);
}

}  // namespace
}  // namespace weir::core
