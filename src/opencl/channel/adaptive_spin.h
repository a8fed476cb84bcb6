// SPDX-License-Identifier: Apache-2.0
// Decides how long to spin before sleeping, judged by recent waits. On a core of its own, spinning notices an answer a
// hundred times faster than a wake-up. On a shared core it only delays the other side.
#pragma once

#include <algorithm>

namespace weir::opencl {

/// One round of spinning.
inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class AdaptiveSpin {
 public:
  static constexpr unsigned kMax = 2'000;  // rounds, each a pause instruction: about 40 us in all
  static constexpr unsigned kProbe = 200;  // tried from time to time after spinning was given up
  static constexpr unsigned kProbeEvery = 64;

  /// The number of rounds to spin this time.
  [[nodiscard]] unsigned Rounds() {
    if (limit_ >= kGivenUp) return limit_;
    return ++waits_ % kProbeEvery == 0 ? kProbe : 0;
  }
  /// Data came after `rounds` rounds: allows twice as many the next time.
  void Came(unsigned rounds) { limit_ = std::clamp(std::max(2 * rounds, limit_), kProbe, kMax); }
  /// No data came: allows half as many rounds the next time.
  void DidNotCome() { limit_ /= 2; }

 private:
  static constexpr unsigned kGivenUp = 32;  // fewer rounds are not worth spinning
  unsigned limit_ = kProbe;
  unsigned waits_ = 0;
};

}  // namespace weir::opencl
