// SPDX-License-Identifier: Apache-2.0
// The commands of one queue that were enqueued while the client had unset user events. When a user event fails, PoCL
// 3.1 fails the commands that wait for it at once, although commands before them in their queue still run. Therefore
// the end of such a queue's last command does not imply that the others have ended, and a command that comes after it
// has to wait for them. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "opencl/channel/cl.h"

namespace weir::opencl {

class RunningCommands {
 public:
  using Event = std::shared_ptr<_cl_event>;

  /// Returns the number of a new command, whose end must be reported with End.
  std::uint64_t Begin(Event event) {
    const std::lock_guard lock(mutex_);
    running_.emplace(++last_, std::move(event));
    return last_;
  }
  void End(std::uint64_t number) {
    std::vector<Waiting> ready;
    Event ended;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = running_.find(number); found != running_.end()) {
        ended = std::move(found->second);
        running_.erase(found);
      }
      const auto due =
          std::partition(waiting_.begin(), waiting_.end(), [this](const Waiting& one) { return !Ended(one.up_to); });
      std::move(due, waiting_.end(), std::back_inserter(ready));
      waiting_.erase(due, waiting_.end());
    }
    for (const Waiting& one : ready) one.then();
  }
  /// The events of the commands that have not ended.
  [[nodiscard]] std::vector<Event> Running() const {
    const std::lock_guard lock(mutex_);
    std::vector<Event> events;
    for (const auto& [number, event] : running_) events.push_back(event);
    return events;
  }
  /// The number of the command that began last.
  [[nodiscard]] std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  /// Calls `then` when the commands up to this number have ended, from any thread; at once if they have.
  void When(std::uint64_t up_to, std::function<void()> then) {
    {
      const std::lock_guard lock(mutex_);
      if (!Ended(up_to)) {
        waiting_.push_back({up_to, std::move(then)});
        return;
      }
    }
    then();
  }

 private:
  struct Waiting {
    std::uint64_t up_to;
    std::function<void()> then;
  };
  /// Requires the mutex.
  [[nodiscard]] bool Ended(std::uint64_t up_to) const { return running_.empty() || running_.begin()->first > up_to; }

  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Event> running_;
  std::vector<Waiting> waiting_;
};

}  // namespace weir::opencl
