// SPDX-License-Identifier: Apache-2.0
// How fast kernels run together where pairs of them were measured on a real device (`weir profile --scenario`), instead
// of the model of kernel_cost.h. Each neighbour adds to a kernel's time what it added when the two were measured as a
// pair. That is our assumption; it is exact for two kernels, and for any number of kernels that only take turns.
// Page: docs/placement.md
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "sim/cluster_world.h"

namespace weir::sim {

class MeasuredPairs {
 public:
  /// The world must have been checked: it has each pair of its kernels exactly once, or no pairs at all.
  explicit MeasuredPairs(const ClusterWorld& world) : kernels_(world.kernels.size()) {
    if (world.pairs.empty()) return;
    added_.resize(kernels_ * kernels_);
    for (const ClusterPair& pair : world.pairs) {
      const bool alike = pair.first == pair.second;
      const double both_s = (pair.first_s + pair.second_s) / 2;
      Put(world, pair.first, pair.second, alike ? both_s : pair.first_s);
      Put(world, pair.second, pair.first, alike ? both_s : pair.second_s);
    }
  }

  [[nodiscard]] bool empty() const { return added_.empty(); }

  /// Speeds of kernels that run together, given by their numbers and in the same order; 1 is the speed alone. Must not
  /// be called if `empty`.
  [[nodiscard]] std::vector<double> SpeedsOf(std::span<const std::uint32_t> together) const {
    std::vector<double> speeds;
    for (std::size_t i = 0; i < together.size(); ++i) {
      double slowdown = 1;
      for (std::size_t j = 0; j < together.size(); ++j)
        if (j != i) slowdown += added_[together[i] * kernels_ + together[j]];
      speeds.push_back(1 / slowdown);
    }
    return speeds;
  }

 private:
  /// Stores how much `other` slows `one` down. A measured time below the time alone counts as no slowdown.
  void Put(const ClusterWorld& world, std::uint32_t one, std::uint32_t other, double seconds) {
    added_[one * kernels_ + other] = std::max(0.0, seconds / SecondsOf(world.kernels[one].kernel) - 1);
  }

  std::size_t kernels_;
  std::vector<double> added_;  // [kernel][neighbour]: time added by the neighbour, over the kernel's time alone
};

}  // namespace weir::sim
