// SPDX-License-Identifier: Apache-2.0
// Limits of one client. The executor refuses what exceeds them, so that code which follows a connection need not handle
// more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace weir::opencl {

/// Bounds ids, so that a table indexed by id takes little memory.
inline constexpr std::uint32_t kIdMax = 1U << 20;
inline constexpr std::uint32_t kArgsMax = 4096;
inline constexpr std::size_t kDevicesMax = 64;

/// Limit of a wait for memory that commands hold which may wait for a user event: only a later call of the program
/// would set it.
inline constexpr Duration kWaitBesideUserEvents = seconds(5);

/// The end of a remote client's arena is hidden from the client. The relay uses it to read and write the contents that
/// a migration moves (docs/migration.md).
inline constexpr std::uint64_t kSpareBytes = 16 << 20;

/// An arena has room for a tenant's buffers, and at its end room of its own for contents on their way, so that a
/// program whose buffers take all of its memory can still read and write them: as much again, at most kStagingBytesMax.
inline constexpr std::uint64_t kStagingBytesMax = 1 << 30;
constexpr std::uint64_t StagingFor(std::uint64_t memory_bytes) { return std::min(memory_bytes, kStagingBytesMax); }

}  // namespace weir::opencl
