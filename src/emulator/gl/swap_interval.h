// SPDX-License-Identifier: Apache-2.0
// The swap interval of a process: the least number of vertical blanks between two frames of a window.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace weir::emulator::gl {

class SwapInterval {
 public:
  static constexpr int kMax = 16;

  /// 1 until the program sets another interval, as GLX and EGL specify.
  [[nodiscard]] unsigned Get() const { return Never() ? 0 : set_.load(std::memory_order_relaxed); }
  /// Negative intervals (GLX_EXT_swap_control_tear) count like positive ones.
  void Set(int interval) { set_ = static_cast<unsigned>(std::min(std::abs(std::max(interval, -kMax)), kMax)); }

 private:
  /// Mesa's variable, with which the user overrides the program's interval.
  static bool Never() {
    static const bool kNever = [] {
      const char* mode = std::getenv("vblank_mode");
      return mode != nullptr && std::strcmp(mode, "0") == 0;
    }();
    return kNever;
  }
  std::atomic<unsigned> set_{1};
};

}  // namespace weir::emulator::gl
