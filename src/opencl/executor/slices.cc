// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/slices.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernel/source_lines.h"

namespace weir::opencl {
namespace {

/// "atom" matches atomic_add, atom_add and __opencl_atomic_load. A group may wait for another one's write to a volatile
/// object. "##", or another spelling of it, makes names that are not in the text.
constexpr std::array<std::string_view, 14> kLaunchQueries{"get_group_id",
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
                                                          "volatile",
                                                          "##",
                                                          "%:%:"};
/// If the driver chooses the local size, pieces may get another one than the whole launch.
/// "work_group_" alone would also match the attribute reqd_work_group_size.
constexpr std::array<std::string_view, 9> kGroupQueries{
    "get_local_id",         "barrier",           "local",          "sub_group", "work_group_all", "work_group_any",
    "work_group_broadcast", "work_group_reduce", "work_group_scan"};

/// Without a local size, pieces along the fastest dimension have multiples of this size, because drivers choose the
/// local size among the divisors.
constexpr std::uint64_t kUnit = 256;

bool Names(std::string_view source, const auto& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return source.find(word) != std::string_view::npos; });
}

}  // namespace

bool MayBeSliced(std::string_view source) {
  if (kernel::HasTrigraphs(source)) return false;
  const bool continues = source.find('\\') != std::string_view::npos;
  const std::string spliced = continues ? kernel::Spliced(source) : std::string();
  const std::string_view text = continues ? std::string_view(spliced) : source;
  return !Names(text, kLaunchQueries) && !Names(text, kGroupQueries);
}

Slicer::Slicer(const Launch& launch, std::uint64_t pieces) : whole_(launch) {
  if (pieces < 2) return;
  std::uint64_t most = 1;
  for (unsigned d = launch.dimensions; d-- > 0;) {
    const std::uint64_t unit = launch.has_local ? std::max<std::uint64_t>(launch.local[d], 1) : d == 0 ? kUnit : 1;
    const std::uint64_t groups = launch.global[d] / unit;
    if (groups <= most) continue;
    cut_ = true;
    along_ = d;
    unit_ = unit;
    most = groups;
    if (groups >= pieces) break;
  }
  // No overflow: the launch was checked to have fewer work-items.
  items_per_unit_ = unit_;
  for (unsigned d = 0; d < launch.dimensions; ++d)
    if (d != along_) items_per_unit_ *= launch.global[d];
}

Launch Slicer::Next(std::uint64_t items) {
  const std::uint64_t left = whole_.global[along_] - begin_;
  const std::uint64_t units = std::max<std::uint64_t>(items / std::max<std::uint64_t>(items_per_unit_, 1), 1);
  done_ = !cut_ || units >= left / unit_ || left - units * unit_ < units * unit_ / 2;
  Launch piece = whole_;
  piece.offset[along_] += begin_;
  piece.global[along_] = done_ ? left : units * unit_;
  begin_ += piece.global[along_];
  return piece;
}

}  // namespace weir::opencl
