// SPDX-License-Identifier: Apache-2.0
// What the parts of one launch of an analysed kernel need, for plan.h. Pure.
#pragma once

#include <unordered_map>

#include "core/partition/need.h"
#include "kernel/cuttable.h"
#include "kernel/part_slices.h"

namespace weir::core {

/// Needs of the parts of one launch; the launch and its kernel must outlive this object. A range that can't be
/// evaluated needs more than any device has. Results are cached, up to a bound. Not thread-safe.
class FootprintNeed final : public TaskNeed {
 public:
  FootprintNeed(const kernel::KernelAccess& access, const kernel::KernelLaunch& launch, std::uint64_t alignment);

  [[nodiscard]] bool Cuttable(unsigned dimension) const override { return may_[dimension].yes; }
  [[nodiscard]] PartNeed Of(const kernel::PartRange& part) const override;
  /// Number of ranges that were evaluated so far.
  [[nodiscard]] std::uint64_t evaluated() const { return evaluated_; }
  /// Why a dimension can't be cut, as text.
  [[nodiscard]] const kernel::CutAnswer& Answer(unsigned dimension) const { return may_[dimension]; }
  /// Slices that all parts along this dimension read and none writes.
  [[nodiscard]] const std::vector<kernel::MemorySlice>& AlikeAlong(unsigned dimension) const {
    return alike_[dimension];
  }

 private:
  static constexpr std::size_t kKnownMax = 4096;  // ranges in the cache, which is cleared when it is full
  [[nodiscard]] PartNeed Evaluate(const kernel::PartRange& part) const;

  const kernel::KernelAccess& access_;
  const kernel::KernelLaunch& launch_;
  const std::uint64_t alignment_;
  std::array<kernel::CutAnswer, kDimensionsMax> may_;
  std::array<std::vector<kernel::MemorySlice>, kDimensionsMax> alike_;
  struct RangeHash {
    std::size_t operator()(const kernel::PartRange& part) const {
      return (part.first * 0x9E3779B97F4A7C15U ^ part.end) * 0x9E3779B97F4A7C15U + part.dimension;
    }
  };
  mutable std::unordered_map<kernel::PartRange, PartNeed, RangeHash> known_;
  mutable std::uint64_t evaluated_ = 0;
};

}  // namespace weir::core
