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

}  // namespace weir::opencl
