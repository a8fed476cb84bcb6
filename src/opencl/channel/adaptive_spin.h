// SPDX-License-Identifier: Apache-2.0
// How long to spin before sleeping, from how it went lately. With a core to itself spinning answers a hundred times
// faster than a wake-up; on a shared core it only keeps the other side from running.
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
  static constexpr unsigned kMax = 2'000;  // rounds of a pause instruction each: some 40 us
  static constexpr unsigned kProbe = 200;  // tried now and then after it had stopped to pay
  static constexpr unsigned kProbeEvery = 64;

  /// Rounds to spin this time.
  [[nodiscard]] unsigned Rounds() {
    if (limit_ >= kGivenUp) return limit_;
    return ++waits_ % kProbeEvery == 0 ? kProbe : 0;
  }
  /// It came after `rounds`: room for twice as long the next time.
  void Came(unsigned rounds) { limit_ = std::clamp(std::max(2 * rounds, limit_), kProbe, kMax); }
  /// It did not come: half as long the next time.
  void DidNotCome() { limit_ /= 2; }

 private:
  static constexpr unsigned kGivenUp = 32;  // less is not worth a look
  unsigned limit_ = kProbe;
  unsigned waits_ = 0;
};

}  // namespace weir::opencl
