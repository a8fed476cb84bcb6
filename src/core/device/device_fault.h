// SPDX-License-Identifier: Apache-2.0
// A fault of a modelled device, and when it comes: plain data. Device description files fill it in.
//
//   to come ──▶ in effect ──▶ over
//      │ its command is given, or its time has come     │ its time or its count has run out
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace weir::core {

struct DeviceFault {
  enum class Kind : std::uint8_t {
    kLost,       // All commands fail, and the device takes no others.
    kReset,      // All commands fail. Of clients that the device knows it takes no others.
    kHang,       // No engine makes progress.
    kSlow,       // A command takes longer.
    kNoMemory,   // An allocation fails.
    kNoAccount,  // The device's account is not answered.
  };
  enum class State : std::uint8_t { kToCome, kInEffect, kOver };

  Kind kind = Kind::kLost;
  /// It comes with the command that is given after so many; kNoMemory: with the allocation. Empty: at a time.
  std::optional<std::uint64_t> after{};
  Duration at{};            // since the device was given its first command
  Duration lasts{};         // kHang, kNoAccount. Zero: to the end.
  std::uint64_t count = 0;  // kSlow: commands; kNoMemory: allocations. Zero: all.
  Duration extra{};         // kSlow: what a command takes beside its work
};

}  // namespace weir::core
