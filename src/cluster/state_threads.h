// SPDX-License-Identifier: Apache-2.0
// The two threads of a manager that wait for the store, so that its loop never does: one takes and keeps the lead, one
// writes. Both tell the loop what came of it.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "cluster/state_store.h"

namespace weir::cluster {

/// Follower until nobody leads, or until nobody listens where the leader should; leader until the lead can't be kept.
class LeadKeeper {
 public:
  struct Told {
    std::function<void(Lead, std::vector<Entry>)> leads;               // with all that is stored
    std::function<void(std::string leader, std::string why)> follows;  // empty leader: nobody leads
  };
  /// `self`: where this manager answers. Calls in the loop's thread.
  LeadKeeper(boost::asio::io_context& loop, StateStore& store, std::string self, Told told);
  /// Gives the lead up.
  ~LeadKeeper();
  LeadKeeper(const LeadKeeper&) = delete;
  LeadKeeper& operator=(const LeadKeeper&) = delete;

  /// What the manager has in memory is of no use: begin again with what is stored.
  void StartAgain();
  /// The lease may have ended since it was kept last, and another manager may lead: by our own clock, so also while the
  /// store doesn't answer. From any thread.
  [[nodiscard]] bool LeadIsOver() const;

 private:
  void Run();
  void Follow();
  void KeepTo(const Lead& lead);
  bool Pause(Duration time);  // false: end, or start again
  [[nodiscard]] bool SomebodyListensAt(const std::string& leader) const;

  boost::asio::io_context& loop_;
  StateStore& store_;
  const std::string self_;
  const Told told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, again_ = false;
  std::string said_ = "?";       // the leader that was told last
  std::atomic<Instant> kept_{};  // when the lead was asked for, or asked to be kept, with success
  std::thread thread_;
};

/// Writes in the order given, as much in one transaction as fits.
class StateWriter {
 public:
  /// `done`: all writes up to that sequence are in the store; `failed`: no more will be. Calls in the loop's thread.
  StateWriter(boost::asio::io_context& loop, StateStore& store, Lead lead, std::function<void(std::uint64_t)> done,
              std::function<void(Error)> failed);
  ~StateWriter();
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;

  void Add(std::uint64_t sequence, Change change);

 private:
  struct Ordered {
    std::uint64_t sequence;
    Change change;
  };
  void Run();
  /// Waits for some. Empty: end.
  std::vector<Ordered> Take();
  Status Write(const std::vector<Change>& changes);

  boost::asio::io_context& loop_;
  StateStore& store_;
  const Lead lead_;
  const std::function<void(std::uint64_t)> done_;
  const std::function<void(Error)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::vector<Ordered> waiting_;
  std::thread thread_;
};

}  // namespace weir::cluster
