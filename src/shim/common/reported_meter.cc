// SPDX-License-Identifier: Apache-2.0
#include "shim/common/reported_meter.h"

namespace weir::shim {

void ReportedMeter::BeforePresent(std::int64_t now_ns) {
  if (begun_ns_ == 0) begun_ns_ = now_ns;
}

std::int64_t ReportedMeter::AfterPresent(std::int64_t now_ns, std::int64_t /*held_ns*/) {
  constexpr std::int64_t kSlackNs = 100'000'000;  // for work that was submitted before the meter was made
  const std::int64_t known_ns = reported_.gpu_ns.exchange(0, std::memory_order_relaxed);
  if (begun_ns_ == 0) begun_ns_ = now_ns;
  charged_ns_ += known_ns;
  const std::int64_t most_ns = (now_ns - begun_ns_) / 10 * 11 + kSlackNs;
  if (known_ns < 0 || charged_ns_ > most_ns * reported_.devices.load(std::memory_order_relaxed)) truthful_ = false;
  return truthful_ ? known_ns : 0;
}

int ReportedMeter::Unknown() {
  const std::uint64_t known = reported_.known.load(std::memory_order_relaxed);
  if (count_ == kFrames) {
    first_ = (first_ + 1) % kFrames;
    --count_;
  }
  made_[(first_ + count_) % kFrames] = reported_.made.load(std::memory_order_relaxed);
  ++count_;
  while (count_ > 0 && made_[first_] <= known) {
    first_ = (first_ + 1) % kFrames;
    --count_;
  }
  return static_cast<int>(count_);
}

}  // namespace weir::shim
