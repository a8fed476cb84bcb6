// SPDX-License-Identifier: Apache-2.0
// How much one client may have: what the executor refuses beyond, and what follows a connection need not know of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::opencl {

/// Ids are small numbers: a client's memory is what its objects take, and not what their names are.
inline constexpr std::uint32_t kIdMax = 1U << 20;
inline constexpr std::uint32_t kArgsMax = 4096;
inline constexpr std::size_t kDevicesMax = 64;

/// The end of a distant client's arena is not shown to it: there its relay reads and writes contents that it moves
/// (docs/migration.md).
inline constexpr std::uint64_t kSpareBytes = 16 << 20;

}  // namespace weir::opencl
