// SPDX-License-Identifier: Apache-2.0
// The laws of the device model, on drawn devices and drawn commands.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "core/device/device_model.h"

namespace weir::core {
namespace {

struct DrawnCommand {
  Duration after{};  // since the submission before
  DeviceCommand command;
};

constexpr std::uint32_t kClients = 4, kQueuesEach = 2;

rc::Gen<DeviceConfig> DeviceConfigs() {
  return rc::gen::exec([] {
    DeviceConfig config;
    config.arbitration = *rc::gen::element(Arbitration::kFifo, Arbitration::kTimeSlice, Arbitration::kConcurrent);
    config.slice = microseconds(*rc::gen::inRange(1, 3000));
    config.switch_cost = microseconds(*rc::gen::inRange(0, 200));
    config.launch_overhead = microseconds(*rc::gen::inRange(0, 20));
    config.units = *rc::gen::inRange(1U, 100U);
    config.memory = MiB(256);
    config.in_bytes_per_s = *rc::gen::inRange(0ULL, 10'000'000'000ULL);
    config.out_bytes_per_s = *rc::gen::inRange(0ULL, 10'000'000'000ULL);
    config.link_latency = microseconds(*rc::gen::inRange(0, 50));
    return config;
  });
}

rc::Gen<std::vector<DrawnCommand>> DrawnCommands() {
  return rc::gen::container<std::vector<DrawnCommand>>(rc::gen::exec([] {
    DrawnCommand drawn;
    drawn.after = microseconds(*rc::gen::inRange(0, 4000));
    drawn.command.client = *rc::gen::inRange(0U, kClients);
    drawn.command.queue = drawn.command.client * kQueuesEach + *rc::gen::inRange(0U, kQueuesEach);
    drawn.command.engine = *rc::gen::weightedElement<EngineKind>(
        {{4, EngineKind::kCompute}, {1, EngineKind::kCopyIn}, {1, EngineKind::kCopyOut}});
    drawn.command.work = Duration{*rc::gen::inRange(0, 5'000'000)};
    drawn.command.bytes = Bytes{*rc::gen::inRange(0ULL, 4'000'000ULL)};
    drawn.command.units = *rc::gen::inRange(0U, 120U);
    return drawn;
  }));
}

struct Played {
  std::vector<DeviceCompletion> completed;
  std::array<Duration, kEngineKinds> busy{}, sum{};
  Instant end{};
};

constexpr Instant kStart = InstantFromNs(5'000'000'000);

/// Submits all commands, and calls Advance at least every `step`.
template <typename Check>
Played Play(const DeviceConfig& config, const std::vector<DrawnCommand>& drawn, Duration step, Check check) {
  DeviceModel device(config);
  Played played;
  Instant now = kStart;
  std::uint64_t tag = 0;
  for (const DrawnCommand& each : drawn) {
    const Instant at = now + each.after;
    for (; now < at; now = std::min(at, now + step)) device.Advance(now, played.completed);
    device.Advance(now, played.completed);
    DeviceCommand command = each.command;
    command.tag = tag++;
    RC_ASSERT(device.Submit(now, command));
    check(device, now);
  }
  while (device.NextEvent() != DeviceModel::kNoEvent) {
    now = std::min(now + step, device.NextEvent());
    device.Advance(now, played.completed);
    check(device, now);
  }
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    const auto kind = static_cast<EngineKind>(i);
    played.busy[i] = device.Busy(kind, now);
    for (std::uint32_t client = 0; client < kClients; ++client) played.sum[i] += device.BusyOf(client, kind, now);
  }
  played.end = now;
  return played;
}

Played Play(const DeviceConfig& config, const std::vector<DrawnCommand>& drawn) {
  return Play(config, drawn, seconds(1), [](const DeviceModel&, Instant) {});
}

RC_GTEST_PROP(DeviceLaws, CommandsOfAQueueRunOneAfterTheOtherInOrder, ()) {
  const auto config = *DeviceConfigs();
  const auto drawn = *DrawnCommands();
  const Played played = Play(config, drawn);
  RC_ASSERT(played.completed.size() == drawn.size());
  std::map<std::uint32_t, DeviceCompletion> last;
  for (const DeviceCompletion& each : played.completed) {
    RC_ASSERT(each.submitted <= each.began && each.began <= each.ended);
    const auto before = last.find(each.command.queue);
    if (before != last.end()) {
      RC_ASSERT(before->second.command.tag < each.command.tag);
      RC_ASSERT(before->second.ended <= each.began);
    }
    last[each.command.queue] = each;
  }
}

RC_GTEST_PROP(DeviceLaws, BusyTimesOfClientsAddUpToThatOfTheEngine, ()) {
  const Played played = Play(*DeviceConfigs(), *DrawnCommands());
  for (std::size_t i = 0; i < kEngineKinds; ++i) {
    RC_ASSERT(played.sum[i] == played.busy[i]);
    RC_ASSERT(played.busy[i] <= played.end - kStart);
  }
  std::array<Duration, kEngineKinds> charged{};
  for (const DeviceCompletion& each : played.completed)
    charged[static_cast<std::size_t>(each.command.engine)] += each.busy;
  RC_ASSERT(charged == played.busy);
}

RC_GTEST_PROP(DeviceLaws, ACommandGetsExactlyItsWork, ()) {
  const auto config = *DeviceConfigs();
  const Played played = Play(config, *DrawnCommands());
  for (const DeviceCompletion& each : played.completed) {
    if (each.command.engine != EngineKind::kCompute) continue;
    const Duration work = each.command.work + config.launch_overhead;
    if (config.arbitration == Arbitration::kConcurrent) {
      RC_ASSERT(each.ended - each.began >= work);
    } else {
      RC_ASSERT(each.busy == work);
    }
  }
}

RC_GTEST_PROP(DeviceLaws, AnEngineIsNeverIdleWhileACommandWaitsForIt, ()) {
  auto drawn = *DrawnCommands();
  for (DrawnCommand& each : drawn) each.command.engine = EngineKind::kCompute;
  Play(*DeviceConfigs(), drawn, microseconds(700), [](const DeviceModel& device, Instant) {
    std::size_t outstanding = 0;
    for (std::uint32_t queue = 0; queue < kClients * kQueuesEach; ++queue) outstanding += device.Outstanding(queue);
    RC_ASSERT(device.running(EngineKind::kCompute) == (outstanding > 0));
  });
}

RC_GTEST_PROP(DeviceLaws, TheResultDoesNotDependOnHowOftenAdvanceIsCalled, ()) {
  const auto config = *DeviceConfigs();
  const auto drawn = *DrawnCommands();
  const auto nothing = [](const DeviceModel&, Instant) {};
  const Played seldom = Play(config, drawn, seconds(100), nothing);
  const Played often = Play(config, drawn, microseconds(*rc::gen::inRange(50, 5000)), nothing);
  RC_ASSERT(seldom.completed.size() == often.completed.size());
  for (std::size_t i = 0; i < seldom.completed.size(); ++i) {
    RC_ASSERT(seldom.completed[i].command.tag == often.completed[i].command.tag);
    RC_ASSERT(seldom.completed[i].ended == often.completed[i].ended);
    RC_ASSERT(seldom.completed[i].busy == often.completed[i].busy);
  }
  RC_ASSERT(seldom.busy == often.busy);
}

RC_GTEST_PROP(DeviceLaws, TimeSlicesAreFairBetweenClientsThatAlwaysHaveWork, ()) {
  DeviceConfig config;
  config.arbitration = Arbitration::kTimeSlice;
  config.slice = microseconds(*rc::gen::inRange(100, 3000));
  config.switch_cost = microseconds(*rc::gen::inRange(0, 100));
  DeviceModel device(config);
  // Numbers that follow each other, in any order of submission.
  const auto first = *rc::gen::inRange(0U, 10U);
  std::vector<std::uint32_t> clients(*rc::gen::inRange(2U, 6U));
  std::iota(clients.begin(), clients.end(), first);
  clients = *rc::gen::map(rc::gen::arbitrary<std::uint32_t>(), [clients](std::uint32_t seed) {
    auto shuffled = clients;
    std::ranges::shuffle(shuffled, std::minstd_rand(seed));
    return shuffled;
  });
  for (const std::uint32_t client : clients)
    RC_ASSERT(device.Submit(kStart, {.client = client, .queue = client, .work = seconds(10)}));
  std::vector<DeviceCompletion> completed;
  const Instant until = kStart + Duration{*rc::gen::inRange(1'000'000LL, 1'000'000'000LL)};
  device.Advance(until, completed);
  Duration least = Duration::max(), most{};
  for (const std::uint32_t client : clients) {
    least = std::min(least, device.BusyOf(client, EngineKind::kCompute, until));
    most = std::max(most, device.BusyOf(client, EngineKind::kCompute, until));
  }
  RC_ASSERT(most - least <= config.slice);
}

RC_GTEST_PROP(DeviceLaws, MemoryNeverExceedsTheDevice, ()) {
  DeviceModel device({.memory = MiB(256)});
  std::array<std::uint64_t, kClients> held{};
  const auto steps = *rc::gen::container<std::vector<std::tuple<std::uint32_t, bool, std::uint64_t>>>(
      rc::gen::tuple(rc::gen::inRange(0U, kClients), rc::gen::arbitrary<bool>(), rc::gen::inRange(0ULL, 200ULL << 20)));
  for (const auto& [client, take, bytes] : steps) {
    if (take) {
      if (device.Allocate(client, Bytes{bytes})) held[client] += bytes;
    } else {
      device.Free(client, Bytes{bytes});
      held[client] -= std::min(bytes, held[client]);
    }
    std::uint64_t sum = 0;
    for (std::uint32_t each = 0; each < kClients; ++each) {
      RC_ASSERT(device.MemoryOf(each).count == held[each]);
      sum += held[each];
    }
    RC_ASSERT(device.memory_used().count == sum);
    RC_ASSERT(sum <= MiB(256).count);
  }
}

RC_GTEST_PROP(DeviceLaws, ClientsThatAreRemovedLeaveTheBooksInBalance, ()) {
  const auto config = *DeviceConfigs();
  const auto drawn = *DrawnCommands();
  DeviceModel device(config);
  std::vector<DeviceCompletion> completed;
  Instant now = kStart;
  for (const DrawnCommand& each : drawn) {
    now += each.after;
    device.Advance(now, completed);
    RC_ASSERT(device.Submit(now, each.command));
    if (*rc::gen::inRange(0, 4) == 0) device.Remove(now, *rc::gen::inRange(0U, kClients));
    for (std::size_t i = 0; i < kEngineKinds; ++i) {
      const auto kind = static_cast<EngineKind>(i);
      Duration sum = device.BusyOfRemoved(kind);
      for (std::uint32_t client = 0; client < kClients; ++client) sum += device.BusyOf(client, kind, now);
      RC_ASSERT(sum == device.Busy(kind, now));
    }
  }
  for (std::uint32_t client = 0; client < kClients; ++client) device.Remove(now, client);
  RC_ASSERT(device.NextEvent() == DeviceModel::kNoEvent);
}

}  // namespace
}  // namespace weir::core
