// SPDX-License-Identifier: Apache-2.0
// What a run's launches come to as loads: the mean over its time of what they keep resident on the device. Pure.
// Formulas: docs/placement.md, "Loads that are measured"
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"
#include "core/placement/load.h"

namespace weir::modules {

/// One launch of an OpenCL kernel, as it was enqueued and timed.
struct Launch {
  std::uint64_t groups = 0, group_items = 0;
  std::uint64_t local_bytes = 0;     // of a group (CL_KERNEL_LOCAL_MEM_SIZE)
  std::uint64_t argument_bytes = 0;  // of the buffers that are its arguments
  Duration on_device{};              // from its start to its end
};

struct MeasuredLoads {
  core::Loads loads{};         // each at most core::kLoadMax
  std::uint64_t launches = 0;  // that were counted
  std::uint64_t device_ns = 0;
  friend bool operator==(const MeasuredLoads&, const MeasuredLoads&) = default;
};

class LaunchLoads {
 public:
  /// `capacity`: what the device has of each load, which bounds what can be resident at once.
  explicit LaunchLoads(const core::Loads& capacity) : capacity_(capacity) {}

  void Add(const Launch& launch);
  /// Means over a run of that length; what is there at all is 1 at least.
  [[nodiscard]] MeasuredLoads Over(Duration run) const;

 private:
  [[nodiscard]] double Has(core::LoadKind kind) const {
    return static_cast<double>(capacity_[static_cast<std::size_t>(kind)]);
  }

  const core::Loads capacity_;
  // By LoadKind: KiB of local memory, threads and blocks, times seconds; of traffic MB.
  std::array<double, core::kLoadKinds> sums_{};
  std::uint64_t launches_ = 0;
  Duration on_device_{};
};

}  // namespace weir::modules
