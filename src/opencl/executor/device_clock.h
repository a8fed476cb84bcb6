// SPDX-License-Identifier: Apache-2.0
// Converts times of a device's clock to the node's clock. OpenCL does not define their relation (PoCL uses
// CLOCK_MONOTONIC_RAW). An event's end cannot be later than the moment at which it is observed, and the quickest
// observation comes soon after the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>

namespace weir::opencl {

class DeviceClock {
 public:
  /// An event ended at `device_ns` by the device's clock and was observed at `now_ns` by the node's.
  void Observe(std::int64_t device_ns, std::int64_t now_ns) {
    const std::lock_guard lock(mutex_);
    // The clocks drift by less than a ten-thousandth, so that older observations bound the offset less and less.
    if (known_) offset_ns_ += std::max<std::int64_t>(now_ns - observed_ns_, 0) / 10'000;
    offset_ns_ = known_ ? std::min(offset_ns_, now_ns - device_ns) : now_ns - device_ns;
    observed_ns_ = now_ns;
    known_ = true;
  }
  [[nodiscard]] std::int64_t NodeNs(std::int64_t device_ns) const {
    const std::lock_guard lock(mutex_);
    return device_ns + offset_ns_;
  }

 private:
  mutable std::mutex mutex_;
  bool known_ = false;
  std::int64_t offset_ns_ = 0;
  std::int64_t observed_ns_ = 0;
};

}  // namespace weir::opencl
