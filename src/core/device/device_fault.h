// SPDX-License-Identifier: Apache-2.0
// A fault of a modelled device, and when it begins: plain data. Device description files fill it in.
//
//   to come ───────────────────────────────────────▶ in effect ───────────────────────────────▶ over
//           its command is given, or its time comes            its time or its count runs out
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace weir::core {

struct DeviceFault {
  enum class Kind : std::uint8_t {
    kLost,       // All commands fail, and the device refuses all further ones.
    kReset,      // All commands fail, and the device refuses further ones of the clients that it has.
    kHang,       // No engine makes progress.
    kSlow,       // A command takes longer.
    kNoMemory,   // An allocation fails.
    kNoAccount,  // Requests for the device's account are not answered.
  };
  enum class State : std::uint8_t { kToCome, kInEffect, kOver };

  Kind kind = Kind::kLost;
  /// The fault begins with the command that is given after this many others; kNoMemory: with the allocation that is
  /// requested after this many others. Empty: it begins at the time `at`.
  std::optional<std::uint64_t> after{};
  Duration at{};            // since the device was given its first command
  Duration lasts{};         // kHang, kNoAccount: how long it lasts. Zero: to the end.
  std::uint64_t count = 0;  // kSlow, kNoMemory: number of commands or allocations that it affects. Zero: all.
  Duration extra{};         // kSlow: time that a command takes in addition to its work
};

}  // namespace weir::core
