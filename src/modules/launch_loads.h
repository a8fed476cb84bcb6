// SPDX-License-Identifier: Apache-2.0
// Computes a run's loads from its launches: what they keep resident on the device, averaged over the run's time. Pure.
// Formulas: docs/placement.md, "Loads that are measured"
#pragma once

#include <array>
#include <cstdint>

#include "base/units.h"
#include "core/placement/load.h"

namespace weir::modules {

/// One OpenCL launch with its size and its measured time.
struct Launch {
  std::uint64_t groups = 0, group_items = 0;
  std::uint64_t local_bytes = 0;     // for each group (CL_KERNEL_LOCAL_MEM_SIZE)
  std::uint64_t argument_bytes = 0;  // total size of the buffer arguments
  Duration on_device{};              // between start and end of execution
};

struct MeasuredLoads {
  core::Loads loads{};         // each at most core::kLoadMax
  std::uint64_t launches = 0;  // number of launches counted
  std::uint64_t device_ns = 0;
  friend bool operator==(const MeasuredLoads&, const MeasuredLoads&) = default;
};

class LaunchLoads {
 public:
  /// `capacity`: the device's capacity for each load; it bounds what can be resident at once.
  explicit LaunchLoads(const core::Loads& capacity) : capacity_(capacity) {}

  void Add(const Launch& launch);
  /// Averages over a run of that length; a load that is not zero is at least 1.
  [[nodiscard]] MeasuredLoads Over(Duration run) const;

 private:
  [[nodiscard]] double Has(core::LoadKind kind) const {
    return static_cast<double>(capacity_[static_cast<std::size_t>(kind)]);
  }

  const core::Loads capacity_;
  // Indexed by LoadKind. Local memory in KiB, threads and blocks, each times seconds; traffic in MB.
  std::array<double, core::kLoadKinds> sums_{};
  std::uint64_t launches_ = 0;
  Duration on_device_{};
};

}  // namespace weir::modules
