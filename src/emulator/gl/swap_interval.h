// SPDX-License-Identifier: Apache-2.0
// The swap interval of a process: vertical blanks, at least, between two frames of a window.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace weir::emulator::gl {

class SwapInterval {
 public:
  static constexpr int kMax = 16;

  [[nodiscard]] unsigned Get() {
    const int set = set_.load(std::memory_order_relaxed);
    return static_cast<unsigned>(set >= 0 ? set : Default());
  }
  /// Negative intervals (GLX_EXT_swap_control_tear) count like positive ones.
  void Set(int interval) { set_ = std::min(std::abs(std::max(interval, -kMax)), kMax); }

 private:
  /// 1, as GLX and EGL say, but with Mesa's variable for it.
  static int Default() {
    static const int kDefault = [] {
      const char* mode = std::getenv("vblank_mode");
      return mode != nullptr && std::strcmp(mode, "0") == 0 ? 0 : 1;
    }();
    return kDefault;
  }
  std::atomic<int> set_{-1};
};

}  // namespace weir::emulator::gl
