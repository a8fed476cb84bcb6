// SPDX-License-Identifier: Apache-2.0
// The time of a physical device that the program was charged. All VkDevices of the program on that physical device
// share it, so that a moment in which two of them work is charged once.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "shim/common/charged_time.h"

namespace weir::shim {

/// Which physical device. Two instances know the same one by its UUID. Of a device without a UUID, `handle` identifies
/// it within its instance.
struct PhysicalDevice {
  std::array<std::uint8_t, 16> uuid{};
  std::uint64_t handle = 0;
  bool operator==(const PhysicalDevice&) const = default;
};

class DeviceClock {
 public:
  /// How the device counts. `bits`: the valid ones of a timestamp, at least one.
  struct Ticks {
    std::uint32_t bits = 64;
    double ns = 1;  // of a tick
  };
  explicit DeviceClock(const Ticks& ticks) : DeviceClock(PhysicalDevice{}, ticks) {}

  /// The clock of the physical device, for one more VkDevice. Null: out of memory.
  static DeviceClock* Of(const PhysicalDevice& physical, const Ticks& ticks);
  void Release();
  /// The number of physical devices that the program uses.
  static unsigned InUse();

  /// Charges the time from tick `begin` to tick `end`, and `then_ns` after it, that no earlier charge has taken, and
  /// returns it. The counter may have wrapped around to zero between any two ticks. `now_ns` is a time of the host.
  std::int64_t Charge(std::uint64_t begin, std::uint64_t end, double then_ns, std::int64_t now_ns);
  /// The time between two ticks; negative if `end` is the earlier one.
  [[nodiscard]] double Between(std::uint64_t begin, std::uint64_t end) const;

 private:
  DeviceClock(const PhysicalDevice& physical, const Ticks& ticks) : physical_(physical), ticks_(ticks) {}

  const PhysicalDevice physical_;
  const Ticks ticks_;
  DeviceClock* next_ = nullptr;  // in the list of all; guarded by that list's mutex, as users_ is
  unsigned users_ = 1;

  std::mutex mutex_;  // guards what follows
  ChargedTime charged_;
  std::uint64_t last_ticks_ = 0;  // the latest end, and its time on the clock of charged_
  double last_ns_ = 0;
  std::int64_t charged_at_ns_ = 0;  // when, on the host; 0: never
};

}  // namespace weir::shim
