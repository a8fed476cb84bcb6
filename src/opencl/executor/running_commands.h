// SPDX-License-Identifier: Apache-2.0
// The commands of one queue that were enqueued while the client had unset user events. When a user event fails, PoCL
// 3.1 fails the commands that wait for it at once, although commands before them in their queue still run. Therefore
// the end of such a queue's last command does not imply that the others have ended. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace weir::opencl {

class RunningCommands {
 public:
  /// Returns the number of a new command, whose end must be reported with End.
  std::uint64_t Begin() {
    const std::lock_guard lock(mutex_);
    running_.insert(++last_);
    return last_;
  }
  void End(std::uint64_t number) {
    std::vector<Waiting> ready;
    {
      const std::lock_guard lock(mutex_);
      running_.erase(number);
      const auto due =
          std::partition(waiting_.begin(), waiting_.end(), [this](const Waiting& one) { return !Ended(one.up_to); });
      std::move(due, waiting_.end(), std::back_inserter(ready));
      waiting_.erase(due, waiting_.end());
    }
    for (const Waiting& one : ready) one.then();
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
  [[nodiscard]] bool Ended(std::uint64_t up_to) const { return running_.empty() || *running_.begin() > up_to; }

  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::set<std::uint64_t> running_;
  std::vector<Waiting> waiting_;
};

}  // namespace weir::opencl
