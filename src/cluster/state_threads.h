// SPDX-License-Identifier: Apache-2.0
// The two threads of a manager that block on the store, so that its loop never does: one takes and renews the lead, the
// other writes. Both report to the loop.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "cluster/state_store.h"

namespace weir::cluster {

/// Follows until no manager leads, or until the leader's address refuses connections; then leads until the lead can't
/// be renewed.
class LeadKeeper {
 public:
  struct Callbacks {
    std::function<void(Lead, std::vector<Entry>)> leads;               // with all stored records
    std::function<void(std::string leader, std::string why)> follows;  // empty leader: no manager leads
  };
  /// `self`: the address at which this manager answers. Calls back in the loop's thread.
  LeadKeeper(boost::asio::io_context& loop, StateStore& store, std::string self, Callbacks callbacks);
  /// Gives up the lead.
  ~LeadKeeper();
  LeadKeeper(const LeadKeeper&) = delete;
  LeadKeeper& operator=(const LeadKeeper&) = delete;

  /// Discards the manager's state in memory and starts again from the store.
  void StartAgain();
  /// Whether the lease may have expired since the last renewal, so that another manager may lead. Decided by this
  /// machine's clock, because the store may not answer. Thread-safe.
  [[nodiscard]] bool LeadIsOver() const;

 private:
  void Run();
  void Follow();
  void KeepTo(const Lead& lead);
  bool Pause(Duration time);  // false: the thread must end or start again
  [[nodiscard]] static bool IsGone(const std::string& leader);

  boost::asio::io_context& loop_;
  StateStore& store_;
  const std::string self_;
  const Callbacks callbacks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, again_ = false;
  std::string said_ = "?";       // the last reported leader
  std::atomic<Instant> kept_{};  // when the last successful request for the lead was sent
  std::thread thread_;
};

/// Writes changes in order, as many in one transaction as fit.
class StateWriter {
 public:
  /// `done`: all writes up to that sequence are stored; `failed`: no further write will be. Both are called in the
  /// loop's thread.
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
  /// Waits for changes. Empty: the thread must end.
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
