// SPDX-License-Identifier: Apache-2.0
// How long this process's threads were ready to run and did not, and how long they did anything else: the two sums of
// gBalloon's equation 3, from the kernel's books.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <vector>

namespace weir::opencl {

class ThreadWaits {
 public:
  /// `besides`: threads that don't count.
  explicit ThreadWaits(std::vector<pid_t> besides) : besides_(std::move(besides)) {}

  struct Sums {
    std::int64_t steal_ns = 0, elsewhere_ns = 0;  // totals: threads that have ended stay in them
    std::uint32_t threads = 0;                    // alive
  };
  Sums Sample();

 private:
  struct Known {
    std::int64_t begin_ticks = 0;  // a number of a thread that has ended may be given again
    std::int64_t steal_ns = 0, lived_ns = 0;
  };

  const std::vector<pid_t> besides_;
  std::map<pid_t, Known> known_;
  Sums sums_;
};

}  // namespace weir::opencl
