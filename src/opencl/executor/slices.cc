// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/slices.h"

#include <algorithm>
#include <array>

namespace weir::opencl {
namespace {

/// "atom" finds atomic_add, atom_add and __opencl_atomic_load; "group" the work-group's id, size, functions and
/// barriers across it too, which is more than is needed.
constexpr std::array<std::string_view, 12> kTold{"get_group_id",
                                                 "get_num_groups",
                                                 "get_global_size",
                                                 "get_global_offset",
                                                 "get_global_linear_id",
                                                 "get_local_size",
                                                 "get_enqueued_local_size",
                                                 "get_local_linear_id",
                                                 "get_work_dim",
                                                 "atom",
                                                 "printf",
                                                 "##"};
/// With a local size of the driver's choice, pieces may get another one than the whole.
constexpr std::array<std::string_view, 4> kToldOfGroups{"get_local_id", "barrier", "local", "sub_group"};

/// Pieces along the fastest dimension keep to multiples of this where no local size says otherwise: drivers choose
/// their own among the divisors.
constexpr std::uint64_t kUnit = 256;

bool Names(std::string_view source, const auto& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return source.find(word) != std::string_view::npos; });
}

}  // namespace

bool MayBeSliced(std::string_view source) { return !Names(source, kTold) && !Names(source, kToldOfGroups); }

std::vector<Launch> Slices(const Launch& launch, std::uint64_t parts) {
  if (parts < 2) return {launch};
  unsigned along = 0;
  std::uint64_t most = 0;
  const auto unit_of = [&](unsigned d) {
    if (launch.has_local) return std::max<std::uint64_t>(launch.local[d], 1);
    return d == 0 ? kUnit : std::uint64_t{1};
  };
  for (unsigned d = launch.dimensions; d-- > 0;) {
    const std::uint64_t groups = launch.global[d] / unit_of(d);
    if (groups <= most) continue;
    along = d;
    most = groups;
    if (groups >= parts) break;
  }
  parts = std::min(parts, most);
  if (parts < 2) return {launch};
  const std::uint64_t unit = unit_of(along);
  const std::uint64_t groups = launch.global[along] / unit;
  std::vector<Launch> slices;
  std::uint64_t begin = 0;
  for (std::uint64_t part = 0; part < parts; ++part) {
    // The last one takes what is less than a unit, too.
    const auto through = static_cast<std::uint64_t>(static_cast<unsigned __int128>(groups) * (part + 1) / parts);
    const std::uint64_t end = part + 1 == parts ? launch.global[along] : through * unit;
    Launch& slice = slices.emplace_back(launch);
    slice.offset[along] += begin;
    slice.global[along] = end - begin;
    begin = end;
  }
  return slices;
}

}  // namespace weir::opencl
