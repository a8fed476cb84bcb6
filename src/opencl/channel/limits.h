// SPDX-License-Identifier: Apache-2.0
// Limits of one client. The executor refuses what exceeds them, so that code which follows a connection need not handle
// more.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::opencl {

/// Bounds ids, so that a table indexed by id takes little memory.
inline constexpr std::uint32_t kIdMax = 1U << 20;
inline constexpr std::uint32_t kArgsMax = 4096;
inline constexpr std::size_t kDevicesMax = 64;

/// The end of a remote client's arena is hidden from the client. The relay uses it to read and write the contents that
/// a migration moves (docs/migration.md).
inline constexpr std::uint64_t kSpareBytes = 16 << 20;

}  // namespace weir::opencl
