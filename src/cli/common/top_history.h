// SPDX-License-Identifier: Apache-2.0
// The samples that `weir top` keeps between updates: at most those of a minute, with one each second.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/common/snapshot.h"

namespace weir::cli {

inline constexpr std::size_t kHistorySamples = 60;

struct VgpuHistory {
  std::vector<double> fps, gpu_use;                // oldest first
  std::vector<std::int64_t> frames, late, broken;  // totals
  /// Late frames as a fraction of the frames since the oldest sample; with fewer than two samples, of all frames; 0
  /// without frames.
  [[nodiscard]] double LateFraction() const;
  /// As LateFraction, for frames that were late because they waited for other vGPUs.
  [[nodiscard]] double BrokenFraction() const;
};

class TopHistory {
 public:
  /// Adds the snapshot, and removes vGPUs and devices that are gone.
  void Add(const Snapshot& snapshot);
  /// Empty for an unknown name.
  [[nodiscard]] const VgpuHistory& OfVgpu(const std::string& name) const;
  [[nodiscard]] const std::vector<double>& UseOfDevice(const std::string& name) const;

 private:
  std::map<std::string, VgpuHistory> vgpus_;
  std::map<std::string, std::vector<double>> devices_;
};

}  // namespace weir::cli
