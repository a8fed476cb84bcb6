// SPDX-License-Identifier: Apache-2.0
// What `weir top` remembers from one picture to the next. Bounded: a minute at one a second.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/snapshot.h"

namespace weir::cli {

inline constexpr std::size_t kHistorySamples = 60;

struct VgpuHistory {
  std::vector<double> fps, gpu_use;        // oldest first
  std::vector<std::int64_t> frames, late;  // totals
  /// Of the frames that were shown since the oldest sample; of all before there are two. Nothing shown: 0.
  [[nodiscard]] double LateFraction() const;
};

class TopHistory {
 public:
  /// Forgets what isn't there any more.
  void Add(const Snapshot& snapshot);
  /// Empty for a name that was never there.
  [[nodiscard]] const VgpuHistory& OfVgpu(const std::string& name) const;
  [[nodiscard]] const std::vector<double>& UseOfDevice(const std::string& name) const;

 private:
  std::map<std::string, VgpuHistory> vgpus_;
  std::map<std::string, std::vector<double>> devices_;
};

}  // namespace weir::cli
