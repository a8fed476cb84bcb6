// SPDX-License-Identifier: Apache-2.0
// Which moments of a device were charged. Pieces of work that run at the same time, in several queues or streams, are
// known one after the other, and each moment is charged once.
//
//   charged before:      ├────┤      ├──┤
//   a window:          ┌──────────────────────┐         the work in it: at most this much time
//   charged now:             ├──────┤  ├──────┤         from the end backwards, while there is work left
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir::shim {

/// Times are in ns of a clock that the caller chooses. The caller guards the object.
class ChargedTime {
 public:
  struct Window {
    double begin_ns = 0, end_ns = 0;
  };
  /// Charges at most `work_ns` of the time in the window that no earlier charge has taken, and returns it.
  std::int64_t Charge(const Window& window, double work_ns);
  /// Nothing counts as charged any more: the clock has begun again.
  void Forget();

 private:
  static constexpr double kNever = -1e18;  // before every window
  /// So many pieces of work of other queues may end while one runs.
  static constexpr std::size_t kMost = 1024;

  void Replace(std::size_t first, std::size_t last, const Window& by);

  // What was charged: all before floor_ns_, and the windows, which are sorted and disjoint.
  double floor_ns_ = kNever;
  std::array<Window, kMost> charged_{};
  std::size_t count_ = 0;
};

}  // namespace weir::shim
