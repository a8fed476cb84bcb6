// SPDX-License-Identifier: Apache-2.0
#include "kernel/part_slices.h"

#include <algorithm>

namespace weir::kernel {
namespace {

/// The bytes that one argument touches in its memory object.
struct TouchedSpan {
  std::size_t argument = 0;
  std::uint64_t memory = 0;
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;  // offsets in the memory object
};

TouchedSpan SpanTouchedBy(const ArgumentFootprint& footprint, const LaunchArgument& argument, std::size_t index) {
  TouchedSpan touched{.argument = index, .memory = argument.memory};
  for (const auto* extents : {&footprint.reads, &footprint.writes})
    for (const Extent& extent : *extents) {
      touched.begin = std::min(touched.begin, argument.offset + extent.begin);
      touched.end = std::max(touched.end, argument.offset + extent.end());
    }
  if (touched.begin >= touched.end && argument.bytes > 0) {
    touched.begin = argument.offset;
    touched.end = argument.offset + 1;
  }
  return touched;
}

}  // namespace

Result<PartSlices> SlicesOf(const KernelAccess& access, const KernelLaunch& launch, const PartRange& part,
                            std::uint64_t alignment) {
  WEIR_TRY(const std::vector<ArgumentFootprint> footprint, FootprintOf(access, launch, part));
  PartSlices made;
  made.arguments.resize(access.arguments.size());
  std::vector<TouchedSpan> touched;
  for (std::size_t i = 0; i < footprint.size(); ++i) {
    TouchedSpan one = SpanTouchedBy(footprint[i], launch.arguments[i], i);
    if (one.begin < one.end) touched.push_back(one);
  }
  std::ranges::sort(touched, [](const TouchedSpan& a, const TouchedSpan& b) {
    return a.memory != b.memory ? a.memory < b.memory : a.begin < b.begin;
  });
  for (const TouchedSpan& one : touched) {
    const std::uint64_t begin = one.begin / alignment * alignment;
    if (made.slices.empty() || made.slices.back().memory != one.memory || made.slices.back().end <= begin)
      made.slices.push_back({.memory = one.memory, .begin = begin, .end = one.end});
    MemorySlice& slice = made.slices.back();
    slice.end = std::max(slice.end, one.end);
    const LaunchArgument& argument = launch.arguments[one.argument];
    made.arguments[one.argument] = {
        .slice = made.slices.size() - 1,
        .base = static_cast<std::int64_t>(slice.begin) - static_cast<std::int64_t>(argument.offset)};
    slice.sent = slice.sent || !footprint[one.argument].reads.empty();
    for (Extent extent : footprint[one.argument].writes) {
      slice.sent = slice.sent || !extent.whole;
      extent.begin += argument.offset;
      slice.written.push_back(extent);
    }
  }
  return made;
}

}  // namespace weir::kernel
