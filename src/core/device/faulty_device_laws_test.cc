// SPDX-License-Identifier: Apache-2.0
// The laws of devices with faults, on drawn devices, faults and commands.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "core/device/faulty_device.h"

namespace weir::core::faulty_device_laws {
namespace {

using enum DeviceFault::Kind;
using enum FaultyDevice::Answer;

constexpr std::uint32_t kClients = 3;
constexpr Instant kStart = InstantFromNs(5'000'000'000);
constexpr EngineKind kEngines[] = {EngineKind::kCompute, EngineKind::kCopyIn, EngineKind::kCopyOut};

struct Step {
  Duration after{};
  DeviceCommand command;
  bool leaves = false;  // the client leaves instead
};

DeviceConfig DrawnConfig() {
  DeviceConfig config;
  config.arbitration = *rc::gen::element(Arbitration::kFifo, Arbitration::kTimeSlice, Arbitration::kConcurrent);
  config.slice = microseconds(*rc::gen::inRange(100, 3000));
  config.switch_cost = microseconds(*rc::gen::inRange(0, 200));
  config.units = *rc::gen::inRange(1U, 20U);
  config.memory = MiB(64);
  config.in_bytes_per_s = config.out_bytes_per_s = 1'000'000'000;
  return config;
}

rc::Gen<DeviceFault> Fault(std::initializer_list<DeviceFault::Kind> kinds) {
  const std::vector<DeviceFault::Kind> all(kinds);
  return rc::gen::exec([all] {
    DeviceFault fault;
    fault.kind = *rc::gen::elementOf(all);
    if (*rc::gen::arbitrary<bool>()) fault.after = *rc::gen::inRange<std::uint64_t>(0, 12);
    fault.at = microseconds(*rc::gen::inRange(0, 20'000));
    fault.lasts = microseconds(*rc::gen::inRange(1, 20'000));
    fault.count = *rc::gen::inRange<std::uint64_t>(0, 4);
    fault.extra = microseconds(*rc::gen::inRange(1, 20'000));
    return fault;
  });
}

std::vector<DeviceFault> DrawnFaults(std::initializer_list<DeviceFault::Kind> kinds = {kLost, kReset, kHang, kSlow,
                                                                                       kNoMemory, kNoAccount}) {
  return *rc::gen::container<std::vector<DeviceFault>>(Fault(kinds));
}

std::vector<Step> DrawnSteps(bool with_leaving = false) {
  return *rc::gen::container<std::vector<Step>>(rc::gen::exec([with_leaving] {
    Step step;
    step.after = microseconds(*rc::gen::inRange(0, 3000));
    step.command.client = step.command.queue = *rc::gen::inRange(0U, kClients);
    step.command.engine = *rc::gen::elementOf(std::vector<EngineKind>(std::begin(kEngines), std::end(kEngines)));
    step.command.work = microseconds(*rc::gen::inRange(1, 4000));
    step.command.bytes = Bytes{*rc::gen::inRange(0ULL, 2'000'000ULL)};
    step.leaves = with_leaving && *rc::gen::inRange(0, 5) == 0;
    return step;
  }));
}

/// Gives a device all steps, and plays it to its end.
class Play {
 public:
  Play(const DeviceConfig& config, const std::vector<DeviceFault>& faults, const std::vector<Step>& steps,
       Duration often = seconds(1))
      : device(config, faults) {
    for (const Step& step : steps) {
      for (const Instant at = now + step.after; now < at;) AdvanceTo(std::min(at, now + often));
      AdvanceTo(now);
      if (step.leaves) {
        Leave(step.command.client);
        continue;
      }
      DeviceCommand command = step.command;
      command.tag = answers.size();
      const std::size_t before = completed.size();
      answers.push_back(device.Submit(now, command, completed));
      for (std::size_t i = before; i < completed.size(); ++i) RC_ASSERT(completed[i].lost && completed[i].ended == now);
      if (answers.back() == kTaken) open.insert(command.tag);
      whose[command.tag] = command.client;
      Note();
    }
    while (device.NextEvent() != DeviceModel::kNoEvent) AdvanceTo(std::min(device.NextEvent(), now + often));
  }
  [[nodiscard]] const FaultyDevice::Status* First(DeviceFault::Kind kind) const {
    for (const auto& each : device.faults())
      if (each.fault.kind == kind && each.state != DeviceFault::State::kToCome) return &each;
    return nullptr;
  }

  FaultyDevice device;
  Instant now = kStart;
  std::vector<DeviceCompletion> completed;
  std::vector<FaultyDevice::Answer> answers;  // by tag
  std::set<std::uint64_t> open;               // tags that were taken and have not completed
  std::map<std::uint64_t, std::uint32_t> whose;

 private:
  void AdvanceTo(Instant at) {
    now = at;
    device.Advance(now, completed);
    Note();
  }
  /// Checks that each completion is that of a command which was taken, and comes once.
  void Note() {
    for (; noted_ < completed.size(); ++noted_) RC_ASSERT(open.erase(completed[noted_].command.tag) == 1U);
  }
  void Leave(std::uint32_t client) {
    device.Remove(now, client);
    std::erase_if(open, [&](std::uint64_t tag) { return whose[tag] == client; });
  }
  std::size_t noted_ = 0;
};

RC_GTEST_PROP(FaultyDeviceLaws, WithoutFaultsItIsItsModel, ()) {
  const DeviceConfig config = DrawnConfig();
  const auto steps = DrawnSteps();
  const Play play(config, {}, steps);
  DeviceModel model(config);
  std::vector<DeviceCompletion> completed;
  Instant now = kStart;
  for (std::uint64_t tag = 0; const Step& step : steps) {
    now += step.after;
    model.Advance(now, completed);
    DeviceCommand command = step.command;
    command.tag = tag++;
    RC_ASSERT(model.Submit(now, command));
  }
  while (model.NextEvent() != DeviceModel::kNoEvent) model.Advance(model.NextEvent(), completed);
  RC_ASSERT(completed.size() == play.completed.size());
  for (std::size_t i = 0; i < completed.size(); ++i) {
    RC_ASSERT(completed[i].command.tag == play.completed[i].command.tag);
    RC_ASSERT(completed[i].ended == play.completed[i].ended);
  }
}

RC_GTEST_PROP(FaultyDeviceLaws, EachCommandThatWasTakenCompletesOnce, ()) {
  const Play play(DrawnConfig(), DrawnFaults(), DrawnSteps(/*with_leaving=*/true));
  RC_ASSERT(play.open.empty());
}

RC_GTEST_PROP(FaultyDeviceLaws, ALostDeviceTakesAndCompletesNothing, ()) {
  auto faults = DrawnFaults({kReset, kHang, kSlow});
  faults.push_back(*Fault({kLost}));
  const Play play(DrawnConfig(), faults, DrawnSteps());
  const auto* lost = play.First(kLost);
  if (lost == nullptr) return;
  RC_ASSERT(lost->state == DeviceFault::State::kInEffect);
  for (const DeviceCompletion& each : play.completed) RC_ASSERT(each.ended <= lost->began);
  FaultyDevice device = play.device;
  std::vector<DeviceCompletion> none;
  RC_ASSERT(device.Submit(play.now, {.client = 77, .queue = 77}, none) == kRefused);
  RC_ASSERT(device.Allocate(play.now, 77, Bytes{1}) == kRefused);
}

RC_GTEST_PROP(FaultyDeviceLaws, AResetRefusesItsClientsAndNoOthers, ()) {
  DeviceFault reset = *Fault({kReset});
  const Play play(DrawnConfig(), {reset}, DrawnSteps());
  const auto* fault = play.First(kReset);
  if (fault == nullptr) return;
  RC_ASSERT(fault->state == DeviceFault::State::kOver);
  std::set<std::uint32_t> there;
  for (const DeviceCompletion& each : play.completed) {
    const bool before = each.submitted < fault->began || (each.submitted == fault->began && each.lost);
    if (before) there.insert(each.command.client);
    RC_ASSERT(!each.lost || each.ended == fault->began);
  }
  FaultyDevice device = play.device;
  std::vector<DeviceCompletion> completed;
  for (std::uint32_t client = 0; client < kClients + 1; ++client) {
    const auto answer = device.Submit(play.now, {.client = client, .queue = client}, completed);
    // The test cannot tell whether a command that completed at the very moment of the reset came before it.
    if (there.contains(client)) RC_ASSERT(answer == kRefused);
    if (client == kClients) RC_ASSERT(answer == kTaken);
    device.Remove(play.now, client);
    RC_ASSERT(device.Submit(play.now, {.client = client, .queue = client}, completed) == kTaken);
  }
}

RC_GTEST_PROP(FaultyDeviceLaws, NoCommandCompletesWhileItHangs, ()) {
  const Play play(DrawnConfig(), DrawnFaults({kHang, kSlow}), DrawnSteps());
  for (const auto& each : play.device.faults()) {
    if (each.fault.kind != kHang || each.state == DeviceFault::State::kToCome) continue;
    RC_ASSERT(each.state == DeviceFault::State::kOver);
    for (const DeviceCompletion& done : play.completed)
      RC_ASSERT(done.ended <= each.began || done.ended >= each.began + each.fault.lasts);
  }
}

RC_GTEST_PROP(FaultyDeviceLaws, ASlowCommandTakesItsWorkAndTheExtraTime, ()) {
  DeviceConfig config = DrawnConfig();
  config.arbitration = *rc::gen::element(Arbitration::kFifo, Arbitration::kTimeSlice);
  auto steps = DrawnSteps();
  for (Step& step : steps) step.command.engine = EngineKind::kCompute;
  DeviceFault slow = *Fault({kSlow});
  const Play play(config, {slow, *Fault({kHang})}, steps);
  std::uint64_t hit = 0;
  for (const DeviceCompletion& each : play.completed) {
    const Duration work = steps.at(each.command.tag).command.work;
    if (each.busy == work) continue;
    RC_ASSERT(each.busy == work + slow.extra);
    ++hit;
  }
  RC_ASSERT(hit == play.device.faults().front().hit);
  if (slow.count > 0) RC_ASSERT(hit <= slow.count);
  if (slow.after) {
    const std::uint64_t from = std::min<std::uint64_t>(*slow.after, steps.size());
    const std::uint64_t left = steps.size() - from;
    RC_ASSERT(hit == (slow.count == 0 ? left : std::min(left, slow.count)));
  }
}

RC_GTEST_PROP(FaultyDeviceLaws, TheBooksBalanceWhateverFails, ()) {
  const Play play(DrawnConfig(), DrawnFaults(), DrawnSteps(/*with_leaving=*/true));
  for (const EngineKind engine : kEngines) {
    Duration sum = play.device.model().BusyOfRemoved(engine);
    for (std::uint32_t client = 0; client < kClients; ++client)
      sum += play.device.model().BusyOf(client, engine, play.now);
    RC_ASSERT(sum == play.device.model().Busy(engine, play.now));
  }
}

RC_GTEST_PROP(FaultyDeviceLaws, TheResultDoesNotDependOnHowOftenAdvanceIsCalled, ()) {
  const DeviceConfig config = DrawnConfig();
  const auto faults = DrawnFaults();
  const auto steps = DrawnSteps(/*with_leaving=*/true);
  const Play seldom(config, faults, steps, seconds(100));
  const Play often(config, faults, steps, microseconds(*rc::gen::inRange(50, 5000)));
  RC_ASSERT(seldom.answers == often.answers);
  RC_ASSERT(seldom.completed.size() == often.completed.size());
  for (std::size_t i = 0; i < seldom.completed.size(); ++i) {
    RC_ASSERT(seldom.completed[i].command.tag == often.completed[i].command.tag);
    RC_ASSERT(seldom.completed[i].ended == often.completed[i].ended);
    RC_ASSERT(seldom.completed[i].lost == often.completed[i].lost);
  }
}

RC_GTEST_PROP(FaultyDeviceLaws, SoManyAllocationsFailAndTheOthersDoNot, ()) {
  const DeviceFault fault = *Fault({kNoMemory});
  FaultyDevice device({.memory = MiB(64)}, {fault});
  std::uint64_t failed = 0, asked = 0;
  for (const bool nothing : *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>())) {
    const auto answer = device.Allocate(kStart, 1, Bytes{nothing ? 0ULL : 1ULL});
    const bool hit = !nothing && fault.after && asked >= *fault.after && (fault.count == 0 || failed < fault.count);
    RC_ASSERT(answer == (hit ? kFull : kTaken));
    failed += hit;
    asked += !nothing;
  }
  RC_ASSERT(device.faults().front().hit == failed);
}

}  // namespace
}  // namespace weir::core::faulty_device_laws
