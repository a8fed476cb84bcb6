// SPDX-License-Identifier: Apache-2.0
// Predicts when runs that start together on one device end, if each run slows each other run by a fixed amount, by
// simulating until the last run ends. Our own model; the simulator's `[[pair]]` uses it too. Page: docs/placement.md
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace weir::core {

inline constexpr std::size_t kDrainedMax = 9;  // kinds at once: kKindsMax, and the new run

/// Runs of one kind, which all end together. Left uninitialised, since a decision creates many of them.
struct DrainedKind {
  double alone_s;
  double runs;
  std::array<double, kDrainedMax> added;  // slowdown of one run by one run of each kind, relative to its time alone
};

struct Drained {
  double done_s = 0;  // until the last run ends
  double lost_s = 0;  // sum over all runs of the time beyond their time alone
};

/// `kinds` has at most kDrainedMax entries.
Drained Drain(std::span<const DrainedKind> kinds);

}  // namespace weir::core
