// SPDX-License-Identifier: Apache-2.0
// Identities. Each is its own type, so that one can't be passed for another.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace weir {

template <typename Tag>
struct Id {
  std::uint64_t value = 0;  // 0: none
  explicit constexpr operator bool() const { return value != 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using DeviceId = Id<struct DeviceTag>;
using VgpuId = Id<struct VgpuTag>;
using NodeId = Id<struct NodeTag>;
using ProcessId = Id<struct ProcessTag>;  // one attachment of an agent to a gate; not the operating system's pid

}  // namespace weir

template <typename Tag>
struct std::hash<weir::Id<Tag>> {
  std::size_t operator()(weir::Id<Tag> id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};
