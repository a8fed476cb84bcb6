// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_clock.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace weir::shim {
namespace {

/// A span that ended so long before the latest one is of a counter that has begun again, as after a suspend.
constexpr double kOldestNs = 60e9;

struct Clocks {
  std::mutex mutex;
  DeviceClock* first = nullptr;
  unsigned count = 0;
};
constinit Clocks clocks;

}  // namespace

DeviceClock* DeviceClock::Of(const PhysicalDevice& physical, const Ticks& ticks) {
  const std::lock_guard lock(clocks.mutex);
  for (DeviceClock* clock = clocks.first; clock != nullptr; clock = clock->next_)
    if (clock->physical_ == physical) return ++clock->users_, clock;
  DeviceClock* made = new (std::nothrow) DeviceClock(physical, ticks);
  if (made == nullptr) return nullptr;
  made->next_ = clocks.first;
  clocks.first = made;
  ++clocks.count;
  return made;
}

void DeviceClock::Release() {
  const std::lock_guard lock(clocks.mutex);
  if (--users_ > 0) return;
  DeviceClock** at = &clocks.first;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  --clocks.count;
  delete this;
}

unsigned DeviceClock::InUse() {
  const std::lock_guard lock(clocks.mutex);
  return clocks.count;
}

// The shortest way around the counter.
double DeviceClock::Between(std::uint64_t begin, std::uint64_t end) const {
  const std::uint32_t unused = 64 - std::min(ticks_.bits, std::uint32_t{64});
  return static_cast<double>(static_cast<std::int64_t>((end - begin) << unused) >> unused) * ticks_.ns;
}

std::int64_t DeviceClock::Charge(std::uint64_t begin, std::uint64_t end, double then_ns, std::int64_t now_ns) {
  const double span_ns = Between(begin, end);
  if (span_ns <= 0) return 0;
  const std::lock_guard lock(mutex_);
  // After half a wrap without a charge it would not be known which of two ticks is the earlier one.
  const double quarter_wrap_ns = std::ldexp(ticks_.ns, static_cast<int>(ticks_.bits) - 2);
  const bool is_stale = charged_at_ns_ == 0 || static_cast<double>(now_ns - charged_at_ns_) > quarter_wrap_ns;
  double end_ns = last_ns_ + Between(last_ticks_, end);
  if (is_stale || end_ns < last_ns_ - kOldestNs) {
    charged_.Forget();
    last_ns_ = end_ns = 0;
    last_ticks_ = end;
  }
  charged_at_ns_ = now_ns;
  if (end_ns > last_ns_) {
    last_ns_ = end_ns;
    last_ticks_ = end;
  }
  return charged_.Charge({end_ns - span_ns, end_ns + then_ns}, span_ns + then_ns);
}

}  // namespace weir::shim
