// SPDX-License-Identifier: Apache-2.0
// Use of a device, counted by events: memory at allocation and release, threads at the begin and end of a launch
// (Partial migration, section 4.1). Nothing is polled. Pure. Page: docs/partition.md
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/ids.h"
#include "base/units.h"

namespace weir::core {

class DeviceUsage {
 public:
  explicit DeviceUsage(Bytes total) : total_(total) {}

  void Allocated(ProcessId owner, Bytes size) {
    ++events_;
    used_.count += size.count;
    owners_[owner].memory.count += size.count;
  }
  /// Frees at most what the owner has. A larger amount is clamped and counted in odd().
  void Freed(ProcessId owner, Bytes size) {
    ++events_;
    Owner* of = Find(owner);
    const std::uint64_t real = of != nullptr ? std::min(size, of->memory).count : 0;
    odd_ += real == size.count ? 0 : 1;
    if (of == nullptr) return;
    of->memory.count -= real;
    used_.count -= real;
    Tidy(owner);
  }
  /// `threads`: the launch's global size.
  void Launched(ProcessId owner, std::uint64_t threads) {
    ++events_;
    threads_ += threads;
    owners_[owner].threads += threads;
  }
  void Finished(ProcessId owner, std::uint64_t threads) {
    ++events_;
    Owner* of = Find(owner);
    const std::uint64_t real = of != nullptr ? std::min(threads, of->threads) : 0;
    odd_ += real == threads ? 0 : 1;
    if (of == nullptr) return;
    of->threads -= real;
    threads_ -= real;
    Tidy(owner);
  }
  /// The owner has ended: frees everything that it had.
  void Gone(ProcessId owner) {
    ++events_;
    const auto found = owners_.find(owner);
    if (found == owners_.end()) return;
    used_.count -= found->second.memory.count;
    threads_ -= found->second.threads;
    owners_.erase(found);
  }

  [[nodiscard]] Bytes total() const { return total_; }
  [[nodiscard]] Bytes used() const { return used_; }
  /// 0 if clients have allocated more than the device has.
  [[nodiscard]] Bytes free() const { return Bytes{used_ < total_ ? total_.count - used_.count : 0}; }
  [[nodiscard]] std::uint64_t threads() const { return threads_; }
  [[nodiscard]] Bytes used_by(ProcessId owner) const {
    const auto found = owners_.find(owner);
    return found != owners_.end() ? found->second.memory : Bytes{};
  }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// Number of events that contradict earlier ones.
  [[nodiscard]] std::uint64_t odd() const { return odd_; }

 private:
  struct Owner {
    Bytes memory{};
    std::uint64_t threads = 0;
  };
  Owner* Find(ProcessId owner) {
    const auto found = owners_.find(owner);
    return found != owners_.end() ? &found->second : nullptr;
  }
  /// Removes the entry of an owner that has nothing.
  void Tidy(ProcessId owner) {
    const auto found = owners_.find(owner);
    if (found->second.memory.count == 0 && found->second.threads == 0) owners_.erase(found);
  }

  const Bytes total_;
  Bytes used_{};
  std::uint64_t threads_ = 0;
  std::map<ProcessId, Owner> owners_;
  std::uint64_t events_ = 0;
  std::uint64_t odd_ = 0;
};

}  // namespace weir::core
