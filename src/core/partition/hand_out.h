// SPDX-License-Identifier: Apache-2.0
// Who runs which work-groups of a launch that several nodes share: each asks for some when it has ended the last (or
// the last but one, so that those are on their way meanwhile), and gets fewer as fewer are left (guided
// self-scheduling, by how fast each has been). Nobody waits for another, and what a node turns out to do in a second
// needs not be known before. Pure. Page: docs/partition.md
//
//             Take                       Ended
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

/// Work-groups `first` up to, not including, `end`, along the dimension that is cut.
struct GroupRange {
  std::uint64_t first = 0, end = 0;
  bool operator==(const GroupRange&) const = default;
  [[nodiscard]] constexpr bool empty() const { return first >= end; }
  [[nodiscard]] constexpr std::uint64_t count() const { return empty() ? 0 : end - first; }
};

struct HandOutParams {
  double share = 0.5;                     // of what each would still get if nothing changed
  Duration shortest = milliseconds(100);  // less is not worth the way there and back
  Duration longest = seconds(2);          // what is lost with a node, and what others may have to wait for at the end
  std::uint64_t first_of = 32;            // of a worker of which nothing is known: this part of all groups
  double newest = 0.5;                    // of a rate's mean, the last one's share
};

class HandOut {
 public:
  using Fits = std::function<bool(const GroupRange&)>;

  /// `rates`: of each worker, groups per second as far as is known; 0: unknown.
  HandOut(GroupRange all, std::vector<double> rates, HandOutParams params = {});

  /// What `worker` runs after what it has: no more than what `fits` it at once. Empty: nothing for now, because
  /// none is left, one group does not fit it, or another will have ended all before it would have ended one.
  GroupRange Take(std::size_t worker, const Fits& fits, Instant now);
  /// It has run what it took first of what it has.
  void Ended(std::size_t worker, Instant now);
  /// It has gone, with all that it has: others run that. It is given nothing more, and nobody leaves work to it.
  void Lost(std::size_t worker);

  /// All others have gone: what it is not given nobody will run.
  [[nodiscard]] bool Alone(std::size_t worker) const;
  [[nodiscard]] bool Done() const { return left_ == 0 && out_ == 0; }
  /// Groups per second, with all it waits for; 0: unknown.
  [[nodiscard]] double rate(std::size_t worker) const { return workers_[worker].rate; }
  /// All that it has is foreseen to take; zero: unknown.
  [[nodiscard]] Duration Foreseen(std::size_t worker) const;

 private:
  struct Worker {
    double rate = 0;
    std::uint64_t ended = 0;  // times
    std::deque<GroupRange> has{};
    Instant since{};  // the first of them is all it does
    bool lost = false;
  };
  [[nodiscard]] static std::uint64_t GroupsOf(const Worker& worker);
  [[nodiscard]] std::uint64_t SizeFor(std::size_t worker) const;

  const HandOutParams params_;
  const std::uint64_t all_;
  std::vector<Worker> workers_;
  std::vector<GroupRange> ranges_;  // left; the last is taken from
  std::uint64_t left_ = 0, out_ = 0;
};

}  // namespace weir::core
