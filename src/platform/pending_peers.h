// SPDX-License-Identifier: Apache-2.0
// Accepted connections that have not identified themselves yet. Each has a deadline, and each user's number is bounded.
// Pure: time is an argument.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <list>
#include <optional>
#include <utility>

#include "base/units.h"

namespace weir::platform {

template <typename Connection>
class PendingPeers {
 public:
  struct Entry {
    std::uint64_t number = 0;
    uid_t uid = 0;
    Instant deadline{};
    Connection connection;
  };

  PendingPeers(std::size_t most_per_uid, Duration within) : most_per_uid_(most_per_uid), within_(within) {}

  /// Adds a connection and returns its number. If its user has the maximum already, that user's oldest connection is
  /// dropped. So silent connections cannot shut out later ones, nor one user's connections those of another user.
  std::uint64_t Add(Instant now, uid_t uid, Connection connection) {
    const auto of_user = [uid](const Entry& entry) { return entry.uid == uid; };
    if (static_cast<std::size_t>(std::ranges::count_if(entries_, of_user)) >= most_per_uid_)
      entries_.erase(std::ranges::find_if(entries_, of_user));
    entries_.push_back({next_, uid, now + within_, std::move(connection)});
    return next_++;
  }
  /// Removes a connection that has identified itself or is no longer needed. Empty: it was dropped before.
  std::optional<Connection> Take(std::uint64_t number) {
    const auto found = std::ranges::find(entries_, number, &Entry::number);
    if (found == entries_.end()) return std::nullopt;
    std::optional<Connection> taken(std::move(found->connection));
    entries_.erase(found);
    return taken;
  }
  void DropLate(Instant now) {
    std::erase_if(entries_, [now](const Entry& entry) { return now > entry.deadline; });
  }
  /// Ordered by age, oldest first.
  [[nodiscard]] std::list<Entry>& entries() { return entries_; }

 private:
  const std::size_t most_per_uid_;
  const Duration within_;
  std::uint64_t next_ = 1;
  std::list<Entry> entries_;
};

}  // namespace weir::platform
