// SPDX-License-Identifier: Apache-2.0
// The meter of APIs whose interceptor measures the work itself, by timestamps on the device: Vulkan's layer and CUDA's
// library.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/common/meter.h"

namespace weir::shim {

/// What an interceptor reports, from any thread.
struct Reported {
  std::atomic<unsigned> devices{1};              // the most that the program has used at once
  std::atomic<std::int64_t> gpu_ns{0};           // that no frame was charged yet
  std::atomic<std::uint64_t> made{0}, known{0};  // measured pieces of work, and those whose GPU time is known

  void Add(std::uint64_t more_made, std::uint64_t more_known, std::int64_t more_ns) noexcept {
    gpu_ns.fetch_add(more_ns, std::memory_order_relaxed);
    made.fetch_add(more_made, std::memory_order_relaxed);
    known.fetch_add(more_known, std::memory_order_relaxed);
  }
  void UseDevices(unsigned now) noexcept {
    unsigned most = devices.load(std::memory_order_relaxed);
    while (now > most && !devices.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
    }
  }
};

/// Charges the GPU time that is reported. Each moment of a device is reported once, so the meter contradicts the wall
/// clock if the devices seem to have worked for longer than the time that has passed.
class ReportedMeter final : public Meter {
 public:
  explicit ReportedMeter(Reported& reported) : reported_(reported) {}
  [[nodiscard]] proto::MeterKind kind() const override { return proto::MeterKind::kTimerQuery; }
  [[nodiscard]] bool truthful() const override { return truthful_; }
  void BeforePresent(std::int64_t now_ns) override;
  std::int64_t AfterPresent(std::int64_t now_ns, std::int64_t held_ns) override;
  /// With several queues, work ends in another order than it was submitted in. It is counted as if in order.
  int Unknown() override;

 private:
  static constexpr std::size_t kFrames = 64;  // of more frames, the oldest count as known
  Reported& reported_;
  std::array<std::uint64_t, kFrames>
      made_{};  // a ring: for each frame of unknown time, the pieces of work made until its end
  std::size_t first_ = 0, count_ = 0;
  std::int64_t begun_ns_ = 0;
  std::int64_t charged_ns_ = 0;  // since begun_ns_
  bool truthful_ = true;
};

}  // namespace weir::shim
