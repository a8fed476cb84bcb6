// SPDX-License-Identifier: Apache-2.0
// Distributes the work-groups of a launch that several nodes share. A node requests a range when it has ended its last
// one. It may also request it when it has ended the last but one: the next range is then sent while the node works.
// Ranges shrink as fewer groups are left (guided self-scheduling, by each node's measured rate). No node waits for
// another, and rates need not be known in advance. Pure. Page: docs/partition.md
//
//           Take                       Ended
//   left ───────────▶ out with a worker ───────▶ done
//     ▲                      │ Lost
//     └──────────────────────┘
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/units.h"

namespace weir::core {

/// Work-groups from `first` up to but excluding `end`, along the cut dimension.
struct GroupRange {
  std::uint64_t first = 0, end = 0;
  bool operator==(const GroupRange&) const = default;
  [[nodiscard]] constexpr bool empty() const { return first >= end; }
  [[nodiscard]] constexpr std::uint64_t count() const { return empty() ? 0 : end - first; }
};

struct HandOutParams {
  double share = 0.5;                     // size of a range, as a part of what its worker would still get in all
  Duration shortest = milliseconds(100);  // a shorter range is not worth the round trip
  Duration longest = seconds(2);          // limits the work lost with a node, and the wait for it at the end
  std::uint64_t first_of = 32;            // first range of a worker with an unknown rate: this part of all groups
  double newest = 0.5;                    // weight of the newest measurement in the mean rate
};

class HandOut {
 public:
  using Fits = std::function<bool(const GroupRange&)>;

  /// `rates`: known rate of each worker in groups per second; 0: unknown.
  HandOut(GroupRange all, std::vector<double> rates, HandOutParams params = {});

  /// The next range for `worker`, limited to what `fits` accepts. Empty for now if no groups are left, if a single
  /// group does not fit, or if other workers will end all groups before this worker would end one.
  GroupRange Take(std::size_t worker, const Fits& fits, Instant now);
  /// The worker has ended the oldest of its ranges.
  void Ended(std::size_t worker, Instant now);
  /// The worker has failed. Its ranges become available to others, and it gets no further ranges.
  void Lost(std::size_t worker);

  /// Whether all other workers have failed, so that only this worker can run the rest.
  [[nodiscard]] bool Alone(std::size_t worker) const;
  [[nodiscard]] bool Done() const { return left_ == 0 && out_ == 0; }
  /// Groups per second, including all waits; 0: unknown.
  [[nodiscard]] double rate(std::size_t worker) const { return workers_[worker].rate; }
  /// Predicted time for all its ranges; zero: unknown.
  [[nodiscard]] Duration Foreseen(std::size_t worker) const;

 private:
  struct Worker {
    double rate = 0;
    std::uint64_t ended = 0;       // number of ranges that it has ended
    std::deque<GroupRange> has{};  // ranges that it has not ended, in its order
    Instant since{};               // start of the first of these ranges
    bool lost = false;
  };
  /// Number of groups in the ranges of the worker.
  [[nodiscard]] static std::uint64_t GroupsOf(const Worker& worker);
  /// Size of the next range of the worker.
  [[nodiscard]] std::uint64_t SizeFor(std::size_t worker) const;

  const HandOutParams params_;
  const std::uint64_t all_;
  std::vector<Worker> workers_;
  std::vector<GroupRange> ranges_;    // not handed out; taken from the back
  std::uint64_t left_ = 0, out_ = 0;  // groups that are not handed out, and groups that workers have
};

}  // namespace weir::core
