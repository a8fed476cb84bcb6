// SPDX-License-Identifier: Apache-2.0
// A modelled device with faults, which begin as its description says. Pure, like the model. Without faults it behaves
// exactly as the model.
//
// Laws (faulty_device_laws_test.cc):
// - Without faults each command has the completion that the model gives it.
// - Each command that was taken completes once, lost or not, if no hang goes on to the end.
// - A lost device takes no command, and completes only the commands that it lost.
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
  /// The state of a fault, and what it has affected so far.
  struct Status {
    DeviceFault fault;
    DeviceFault::State state = DeviceFault::State::kToCome;
    Instant began{};        // when it came into effect
    std::uint64_t hit = 0;  // commands that were lost or slow, allocations that failed, requests not answered
  };
  enum class Answer : std::uint8_t { kTaken, kFull, kRefused };

  FaultyDevice(const DeviceConfig& config, const std::vector<DeviceFault>& faults);

  /// As DeviceModel::Submit: the events up to `now` must have been taken. A fault that begins with this command appends
  /// the commands that fail. kRefused: the device is lost, or it was reset while it had this client.
  Answer Submit(Instant now, const DeviceCommand& command, std::vector<DeviceCompletion>& completed);
  [[nodiscard]] Instant NextEvent() const { return std::min(model_.NextEvent(), next_fault_); }
  void Advance(Instant now, std::vector<DeviceCompletion>& completed);
  void Remove(Instant now, std::uint32_t client);
  Answer Allocate(Instant now, std::uint32_t client, Bytes bytes);
  void Free(std::uint32_t client, Bytes bytes) { model_.Free(client, bytes); }
  /// Whether a request for the account is answered now.
  bool AnswersAccount();

  /// The model, for ground truth.
  [[nodiscard]] const DeviceModel& model() const { return model_; }
  [[nodiscard]] const std::vector<Status>& faults() const { return faults_; }

 private:
  [[nodiscard]] bool Refuses(std::uint32_t client) const { return model_.lost() || refused_.contains(client); }
  void Begin(Status& fault, Instant now, std::vector<DeviceCompletion>& completed);
  [[nodiscard]] Status* InEffect(DeviceFault::Kind kind);
  /// Ends the faults whose time is over.
  void EndThoseOver(Instant now);
  void PlanNext();
  static void Hit(Status& fault);

  DeviceModel model_;
  std::vector<Status> faults_;
  std::set<std::uint32_t> known_;    // clients that have or had commands or memory, and have not left
  std::set<std::uint32_t> refused_;  // of these, the clients that the device had at a reset
  std::uint64_t given_ = 0;          // number of commands so far
  std::uint64_t asked_ = 0;          // number of requests for memory so far
  Instant first_{};                  // when the first command was given
  Instant next_fault_ = DeviceModel::kNoEvent;
};

}  // namespace weir::core
