// SPDX-License-Identifier: Apache-2.0
// A modelled device whose faults come when a description says so. Pure, like the model. A device without faults is its
// model.
//
// Laws (faulty_device_laws_test.cc):
// - Without faults each command has the completion that the model gives it.
// - Each command that was taken completes once, lost or not, if no hang goes on to the end.
// - A lost device takes nothing, and completes nothing but what it lost.
// - A reset fails the commands that the device has. Its clients are refused until they have left; others are not.
// - While the device hangs, no command completes.
// - A slow command takes its work and the fault's extra time; no other command takes more than its work.
// - The result does not depend on how often Advance is called.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/units.h"
#include "core/device/device_fault.h"
#include "core/device/device_model.h"

namespace weir::core {

class FaultyDevice {
 public:
  /// What a fault has done so far.
  struct Status {
    DeviceFault fault;
    DeviceFault::State state = DeviceFault::State::kToCome;
    Instant began{};        // once it is in effect
    std::uint64_t hit = 0;  // commands that were lost or slow, allocations that failed, accounts not answered
  };
  enum class Answer : std::uint8_t { kTaken, kFull, kRefused };

  FaultyDevice(const DeviceConfig& config, const std::vector<DeviceFault>& faults);

  /// As DeviceModel's: the events up to `now` must have been taken. A fault that comes with this command appends what
  /// it has failed. kRefused: the device is lost, or it was reset while it had this client.
  Answer Submit(Instant now, const DeviceCommand& command, std::vector<DeviceCompletion>& completed);
  [[nodiscard]] Instant NextEvent() const { return std::min(model_.NextEvent(), next_fault_); }
  void Advance(Instant now, std::vector<DeviceCompletion>& completed);
  void Remove(Instant now, std::uint32_t client);
  Answer Allocate(Instant now, std::uint32_t client, Bytes bytes);
  void Free(std::uint32_t client, Bytes bytes) { model_.Free(client, bytes); }
  /// Whether a request for the account is answered now.
  bool AnswersAccount();

  /// For ground truth.
  [[nodiscard]] const DeviceModel& model() const { return model_; }
  [[nodiscard]] const std::vector<Status>& faults() const { return faults_; }

 private:
  [[nodiscard]] bool Refuses(std::uint32_t client) const { return model_.lost() || refused_.contains(client); }
  void Begin(Status& fault, Instant now, std::vector<DeviceCompletion>& completed);
  [[nodiscard]] Status* InEffect(DeviceFault::Kind kind);
  void EndThoseOver(Instant now);
  void PlanNext();
  static void Hit(Status& fault);

  DeviceModel model_;
  std::vector<Status> faults_;
  std::set<std::uint32_t> known_;    // clients with commands or memory, now or before
  std::set<std::uint32_t> refused_;  // those of them that a reset has hit
  std::uint64_t given_ = 0;          // commands
  std::uint64_t asked_ = 0;          // allocations
  Instant first_{};                  // when the first command was given
  Instant next_fault_ = DeviceModel::kNoEvent;
};

}  // namespace weir::core
