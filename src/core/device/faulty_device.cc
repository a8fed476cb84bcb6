// SPDX-License-Identifier: Apache-2.0
#include "core/device/faulty_device.h"

#include <algorithm>
#include <utility>

namespace weir::core {
namespace {

using Kind = DeviceFault::Kind;
using State = DeviceFault::State;

/// Longer than every run. Sums with it do not overflow.
constexpr Duration kForEver = seconds(10LL * 365 * 24 * 3600);

constexpr bool HasSpan(Kind kind) { return kind == Kind::kHang || kind == Kind::kNoAccount; }

Instant EndOf(const DeviceFault& fault, Instant began) {
  return began + (fault.lasts == Duration{} ? kForEver : fault.lasts);
}

}  // namespace

FaultyDevice::FaultyDevice(const DeviceConfig& config, const std::vector<DeviceFault>& faults) : model_(config) {
  for (const DeviceFault& fault : faults) faults_.push_back({.fault = fault});
}

/// Counts a hit. A fault with a count is over when it has hit that many.
void FaultyDevice::Hit(Status& fault) {
  ++fault.hit;
  if (fault.hit == fault.fault.count) fault.state = State::kOver;
}

void FaultyDevice::Begin(Status& fault, Instant now, std::vector<DeviceCompletion>& completed) {
  fault.state = State::kInEffect;
  fault.began = now;
  const std::size_t before = completed.size();
  switch (fault.fault.kind) {
    case Kind::kLost: model_.Lose(now, completed); break;
    case Kind::kReset:
      model_.Reset(now, completed);
      refused_.insert(known_.begin(), known_.end());
      fault.state = State::kOver;
      for (Status& each : faults_)
        if (each.state == State::kInEffect && each.fault.kind == Kind::kHang) each.state = State::kOver;
      break;
    case Kind::kHang: model_.Stall(now, EndOf(fault.fault, now)); break;
    case Kind::kSlow:
    case Kind::kNoMemory:
    case Kind::kNoAccount: break;
  }
  fault.hit += completed.size() - before;
}

FaultyDevice::Status* FaultyDevice::InEffect(Kind kind) {
  for (Status& each : faults_)
    if (each.state == State::kInEffect && each.fault.kind == kind) return &each;
  return nullptr;
}

void FaultyDevice::EndThoseOver(Instant now) {
  for (Status& fault : faults_)
    if (fault.state == State::kInEffect && HasSpan(fault.fault.kind) && EndOf(fault.fault, fault.began) <= now)
      fault.state = State::kOver;
}

void FaultyDevice::PlanNext() {
  next_fault_ = DeviceModel::kNoEvent;
  for (const Status& each : faults_) {
    if (each.state == State::kToCome && !each.fault.after && given_ > 0)
      next_fault_ = std::min(next_fault_, first_ + each.fault.at);
    if (each.state == State::kInEffect && HasSpan(each.fault.kind))
      next_fault_ = std::min(next_fault_, EndOf(each.fault, each.began));
  }
}

void FaultyDevice::Advance(Instant now, std::vector<DeviceCompletion>& completed) {
  while (next_fault_ <= now) {
    const Instant at = next_fault_;
    model_.Advance(at, completed);
    EndThoseOver(at);
    for (Status& each : faults_)
      if (each.state == State::kToCome && !each.fault.after && first_ + each.fault.at <= at) Begin(each, at, completed);
    PlanNext();
  }
  model_.Advance(now, completed);
}

FaultyDevice::Answer FaultyDevice::Submit(Instant now, const DeviceCommand& command,
                                          std::vector<DeviceCompletion>& completed) {
  if (given_ == 0) first_ = now;
  DeviceCommand given = command;
  for (Status& each : faults_) {
    const bool comes = each.fault.after == given_ || (given_ == 0 && !each.fault.after && each.fault.at == Duration{});
    if (each.state == State::kToCome && comes && each.fault.kind != Kind::kNoMemory) Begin(each, now, completed);
  }
  ++given_;
  if (!faults_.empty()) PlanNext();
  if (Refuses(command.client)) return Answer::kRefused;
  known_.insert(command.client);
  Status* slow = command.engine == EngineKind::kCompute ? InEffect(Kind::kSlow) : nullptr;
  if (slow != nullptr) given.work += slow->fault.extra;
  if (!model_.Submit(now, given)) return Answer::kFull;
  if (slow != nullptr) Hit(*slow);
  return Answer::kTaken;
}

void FaultyDevice::Remove(Instant now, std::uint32_t client) {
  model_.Remove(now, client);
  known_.erase(client);
  refused_.erase(client);
}

FaultyDevice::Answer FaultyDevice::Allocate(Instant now, std::uint32_t client, Bytes bytes) {
  if (Refuses(client)) return Answer::kRefused;
  if (bytes.count == 0) return Answer::kTaken;  // a driver asks whether it is refused
  std::vector<DeviceCompletion> none;
  for (Status& each : faults_)
    if (each.state == State::kToCome && each.fault.kind == Kind::kNoMemory && each.fault.after == asked_)
      Begin(each, now, none);
  ++asked_;
  if (Status* fault = InEffect(Kind::kNoMemory)) {
    Hit(*fault);
    return Answer::kFull;
  }
  if (!model_.Allocate(client, bytes)) return Answer::kFull;
  known_.insert(client);
  return Answer::kTaken;
}

bool FaultyDevice::AnswersAccount() {
  Status* fault = InEffect(Kind::kNoAccount);
  if (fault == nullptr) return true;
  ++fault->hit;
  return false;
}

}  // namespace weir::core
