// SPDX-License-Identifier: Apache-2.0
// Writes the node's state in a separate thread, so that a slow disk does not delay heartbeats. At most one state is
// being written and one waits; a newer state replaces the waiting one.
//
//   Save(1) ──▶ writing 1      Save(2), Save(3) ──▶ 3 waits      1 is written ──▶ writing 3
//
// A failed write is reported to every waiter. The state is then written again, completely and to a new file, after its
// next change and every few seconds.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/units.h"
#include "daemon/saved_node.h"

namespace weir::daemon {

class StateSaver {
 public:
  static constexpr Duration kWriteAgainAfter = seconds(5);
  static constexpr std::size_t kWaitersMax = 1024;

  /// `write` is called in the saver's thread. All other methods and the `WhenSaved` callbacks run in the loop's thread.
  StateSaver(boost::asio::io_context& loop, std::function<Status(const SavedNode&)> write,
             Duration write_again_after = kWriteAgainAfter);
  /// Writes the waiting state, if there is one. Pending callbacks are not called.
  ~StateSaver();
  StateSaver(const StateSaver&) = delete;
  StateSaver& operator=(const StateSaver&) = delete;

  void Save(SavedNode state);
  /// The number of calls to Save.
  [[nodiscard]] std::uint64_t saves() const { return saves_; }
  /// Calls `done` from the loop, once all states saved so far are durable or one could not be written.
  void WhenSaved(std::function<void(Status)> done);
  /// Whether fewer than kWaitersMax callbacks wait.
  [[nodiscard]] bool MayWait() const { return waiters_.size() < kWaitersMax; }
  /// Why the latest state is not on the disk; empty: it is on the disk or being written.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  struct Numbered {
    std::uint64_t number = 0;
    SavedNode state;
  };
  struct Waiter {
    std::uint64_t number;
    std::function<void(Status)> done;
  };
  void Run();
  void OnWritten(std::uint64_t number, const Status& status);

  boost::asio::io_context& loop_;
  const std::function<Status(const SavedNode&)> write_;
  const Duration write_again_after_;

  // Used by the loop's thread only.
  std::uint64_t saves_ = 0;
  std::uint64_t saved_ = 0;  // number of the last durable state
  std::list<Waiter> waiters_;
  std::string problem_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Numbered> next_;  // guarded by mutex_
  bool ends_ = false;             // likewise
  std::thread thread_;            // declared last: starts when all other members exist
};

}  // namespace weir::daemon
