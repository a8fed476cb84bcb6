// SPDX-License-Identifier: Apache-2.0
// When runs that are started at once on one device are done, if each slows each other one by what it adds to it: played
// through to the end of the last one. Ours; what `[[pair]]` of the simulator does, too. Page: docs/placement.md
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace weir::core {

inline constexpr std::size_t kDrainedMax = 9;  // kinds at once: kKindsTold, and the run that is asked for

/// Runs of one kind. All of a kind end together. Says nothing until it is filled: a decision makes many of them.
struct DrainedKind {
  double alone_s;
  double runs;
  std::array<double, kDrainedMax> added;  // to each one's time by one run of each kind, over its time alone
};

struct Drained {
  double done_s = 0;  // until the last one is done
  double lost_s = 0;  // what all together take longer than alone
};

/// Of kDrainedMax kinds at most.
Drained Drain(std::span<const DrainedKind> kinds);

}  // namespace weir::core
