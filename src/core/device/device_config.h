// SPDX-License-Identifier: Apache-2.0
// The description of a modelled device: plain data. Device description files and scenarios fill it in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace weir::core {

/// How a device chooses between clients whose commands wait for the same engine.
enum class Arbitration : std::uint8_t {
  kFifo,        // In order of submission. A command runs to its end.
  kTimeSlice,   // Clients take turns of `slice`. A turn can end in the middle of a command.
  kConcurrent,  // Commands share the engine's units. A command keeps the units that it has until it ends.
};

/// The parts of a device that work at the same time. Graphics and compute commands share one engine.
enum class EngineKind : std::uint8_t { kCompute, kCopyIn, kCopyOut };
inline constexpr std::size_t kEngineKinds = 3;

/// A clock that is low after a pause and needs time to rise.
struct ClockRamp {
  Duration idle{};                    // A pause of at least this length lowers the clock. Zero: the clock is constant.
  Duration rise{};                    // Time until the full clock, from the first command after the pause.
  std::uint32_t low_permille = 1000;  // The low clock, as a part of the full clock.
};

struct DeviceConfig {
  static constexpr std::uint32_t kUnitsMax = 1024;

  Arbitration arbitration = Arbitration::kFifo;
  Duration slice = milliseconds(2);   // kTimeSlice only
  Duration switch_cost{};             // The compute engine pays it when the next command is another client's.
  Duration launch_overhead{};         // The compute engine pays it once for each command.
  std::uint32_t units = 1;            // kConcurrent: what commands share; 1 to kUnitsMax
  std::uint32_t queue_depth = 0;      // Commands that one queue holds, the running one included. 0: no bound.
  Bytes memory{};                     // Allocations never exceed it.
  std::uint64_t in_bytes_per_s = 0;   // Host to device. 0: copies take no time.
  std::uint64_t out_bytes_per_s = 0;  // Device to host.
  Duration link_latency{};            // Each copy pays it once.
  ClockRamp ramp{};
};

}  // namespace weir::core
