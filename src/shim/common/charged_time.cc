// SPDX-License-Identifier: Apache-2.0
#include "shim/common/charged_time.h"

#include <algorithm>

namespace weir::shim {

// Takes free time from the end of the window backwards, so that the amounts of several queues add up, although it is
// not known when within the window the device worked for which. All between the last moment taken and the window's end
// is charged then, so one window replaces those that it meets.
std::int64_t ChargedTime::Charge(const Window& window, double work_ns) {
  const double least_ns = std::max(window.begin_ns, floor_ns_);
  std::size_t last = count_;
  while (last > 0 && charged_[last - 1].begin_ns >= window.end_ns) --last;
  std::size_t first = last;
  double from_ns = window.end_ns, left_ns = work_ns;
  while (left_ns > 0 && from_ns > least_ns) {
    const double free_from_ns = first > 0 ? std::max(charged_[first - 1].end_ns, least_ns) : least_ns;
    const double taken_ns = std::clamp(from_ns - free_from_ns, 0.0, left_ns);
    left_ns -= taken_ns;
    from_ns -= taken_ns;
    if (first == 0 || charged_[first - 1].end_ns < from_ns) break;
    from_ns = std::min(from_ns, charged_[--first].begin_ns);
  }
  if (left_ns >= work_ns) return 0;  // a charge is never taken back
  const double end_ns = first < last ? std::max(window.end_ns, charged_[last - 1].end_ns) : window.end_ns;
  Replace(first, last, {from_ns, end_ns});
  return static_cast<std::int64_t>(work_ns - left_ns);
}

void ChargedTime::Replace(std::size_t first, std::size_t last, const Window& by) {
  const auto at = [this](std::size_t index) { return charged_.begin() + static_cast<std::ptrdiff_t>(index); };
  if (first < last) {
    *at(first) = by;
    std::copy(at(last), at(count_), at(first + 1));
    count_ -= last - first - 1;
    return;
  }
  // Of too many, the earlier half is forgotten, and the free time between them with it.
  if (count_ == kMost) {
    constexpr std::size_t kForgotten = kMost / 2;
    floor_ns_ = charged_[kForgotten - 1].end_ns;
    std::copy(at(kForgotten), at(count_), at(0));
    count_ -= kForgotten;
    if (first < kForgotten) return;
    first -= kForgotten;
  }
  std::copy_backward(at(first), at(count_), at(count_ + 1));
  *at(first) = by;
  ++count_;
}

void ChargedTime::Forget() {
  floor_ns_ = kNever;
  count_ = 0;
}

}  // namespace weir::shim
