// SPDX-License-Identifier: Apache-2.0
// What the parts of one launch of an analysed kernel need, for plan.h. Pure.
#pragma once

#include "core/partition/cuttable.h"
#include "core/partition/need.h"
#include "core/partition/part_slices.h"

namespace weir::core {

/// Of a launch that outlives this, like its kernel. A range that can't be evaluated needs more than there is.
class FootprintNeed final : public TaskNeed {
 public:
  FootprintNeed(const KernelAccess& access, const KernelLaunch& launch, std::uint64_t alignment);

  [[nodiscard]] bool Cuttable(unsigned dimension) const override { return may_[dimension].yes; }
  [[nodiscard]] PartNeed Of(const PartRange& part) const override;
  /// Why a dimension can't be cut, in words.
  [[nodiscard]] const CutAnswer& Answer(unsigned dimension) const { return may_[dimension]; }
  /// Slices that all parts along this dimension read, and none writes.
  [[nodiscard]] const std::vector<MemorySlice>& AlikeAlong(unsigned dimension) const { return alike_[dimension]; }

 private:
  const KernelAccess& access_;
  const KernelLaunch& launch_;
  const std::uint64_t alignment_;
  std::array<CutAnswer, kDimensionsMax> may_;
  std::array<std::vector<MemorySlice>, kDimensionsMax> alike_;
};

}  // namespace weir::core
