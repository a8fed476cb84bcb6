// SPDX-License-Identifier: Apache-2.0
#include "core/partition/footprint_need.h"

#include <algorithm>
#include <limits>

namespace weir::core {
namespace {

/// Need of a range that can't be evaluated. Sums of a few such needs do not overflow.
constexpr Bytes kMoreThanThereIs{std::numeric_limits<std::uint64_t>::max() / 4};

}  // namespace

FootprintNeed::FootprintNeed(const kernel::KernelAccess& access, const kernel::KernelLaunch& launch,
                             std::uint64_t alignment)
    : access_(access), launch_(launch), alignment_(alignment), may_(kernel::Cuttable(access, launch)) {
  for (unsigned d = 0; d < launch.dimensions; ++d) {
    const std::uint64_t groups = launch.Groups(d);
    if (!may_[d].yes || groups < 2) continue;
    const auto first = kernel::SlicesOf(access, launch, {d, 0, 1}, alignment);
    const auto last = kernel::SlicesOf(access, launch, {d, groups - 1, groups}, alignment);
    const auto all = kernel::SlicesOf(access, launch, {d, 0, groups}, alignment);
    if (!first || !last || !all) continue;
    const auto among = [](const kernel::PartSlices& part, const kernel::MemorySlice& one) {
      return std::ranges::any_of(part.slices,
                                 [&](const kernel::MemorySlice& other) { return kernel::SameBytes(one, other); });
    };
    for (const kernel::MemorySlice& slice : all->slices)
      if (slice.written.empty() && among(*first, slice) && among(*last, slice)) alike_[d].push_back(slice);
  }
}

PartNeed FootprintNeed::Of(const kernel::PartRange& part) const {
  if (const auto known = known_.find(part); known != known_.end()) return known->second;
  if (known_.size() >= kKnownMax) known_.clear();
  return known_.emplace(part, Evaluate(part)).first->second;
}

PartNeed FootprintNeed::Evaluate(const kernel::PartRange& part) const {
  ++evaluated_;
  const auto made = kernel::SlicesOf(access_, launch_, part, alignment_);
  if (!made) return {.device = kMoreThanThereIs, .sent = kMoreThanThereIs, .alike = {}, .returned = {}};
  PartNeed need;
  for (const kernel::MemorySlice& slice : made->slices) {
    need.device.count += slice.bytes();
    need.sent.count += slice.sent ? slice.bytes() : 0;
    const bool alike = std::ranges::any_of(
        AlikeAlong(part.dimension), [&](const kernel::MemorySlice& one) { return kernel::SameBytes(one, slice); });
    need.alike.count += alike ? slice.bytes() : 0;
    need.stretches += slice.sent ? 1 : 0;
    for (const kernel::Extent& extent : slice.written) {
      need.returned.count += extent.total();
      need.stretches += extent.rows;
    }
  }
  return need;
}

}  // namespace weir::core
