// SPDX-License-Identifier: Apache-2.0
// Samples how long this process's threads were runnable without running, and how long they did anything else. These are
// the two sums of gBalloon's equation 3, from the kernel's statistics.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace weir::opencl {

class ThreadWaits {
 public:
  /// `besides`: threads that do not count.
  explicit ThreadWaits(std::vector<pid_t> besides) : besides_(std::move(besides)) {}

  struct Sums {
    std::int64_t steal_ns = 0, elsewhere_ns = 0;  // totals, including threads that have ended
    std::uint32_t threads = 0;                    // alive
  };
  Sums Sample();

 private:
  struct Known {
    std::int64_t begin_ticks = 0;  // detects a reused thread id
    std::int64_t steal_ns = 0, lived_ns = 0;
  };

  const std::vector<pid_t> besides_;
  std::map<pid_t, Known> known_;
  Sums sums_;
};

}  // namespace weir::opencl
