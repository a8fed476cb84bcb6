// SPDX-License-Identifier: Apache-2.0
#include "cli/common/top_history.h"

#include <algorithm>

namespace weir::cli {
namespace {

template <typename T>
void Push(std::vector<T>& series, T value) {
  if (series.size() == kHistorySamples) series.erase(series.begin());
  series.push_back(value);
}

template <typename Map, typename Views>
void ForgetOthers(Map& map, const Views& views) {
  std::erase_if(map, [&](const auto& entry) {
    return std::none_of(views.begin(), views.end(), [&](const auto& view) { return view.name == entry.first; });
  });
}

/// `some` as a fraction of the frames since the oldest sample, or, with one sample, of all frames.
double FractionOf(const std::vector<std::int64_t>& some, const std::vector<std::int64_t>& frames) {
  if (frames.empty()) return 0;
  const bool one = frames.size() == 1;
  const std::int64_t shown = frames.back() - (one ? 0 : frames.front());
  const std::int64_t these = some.back() - (one ? 0 : some.front());
  return shown > 0 ? std::clamp(static_cast<double>(these) / static_cast<double>(shown), 0.0, 1.0) : 0;
}

}  // namespace

double VgpuHistory::LateFraction() const { return FractionOf(late, frames); }
double VgpuHistory::BrokenFraction() const { return FractionOf(broken, frames); }

void TopHistory::Add(const Snapshot& snapshot) {
  ForgetOthers(vgpus_, snapshot.vgpus);
  ForgetOthers(devices_, snapshot.devices);
  for (const VgpuView& v : snapshot.vgpus) {
    VgpuHistory& history = vgpus_[v.name];
    // A smaller total means that this is a new vGPU with the same name.
    if (!history.frames.empty() && v.totals.frames < history.frames.back()) history = {};
    Push(history.fps, v.window.fps);
    Push(history.gpu_use, v.window.gpu_use);
    Push(history.frames, v.totals.frames);
    Push(history.late, v.totals.late_frames);
    Push(history.broken, v.totals.broken_frames);
  }
  for (const DeviceView& d : snapshot.devices) Push(devices_[d.name], d.gpu_use);
}

const VgpuHistory& TopHistory::OfVgpu(const std::string& name) const {
  static const VgpuHistory kNone;
  const auto found = vgpus_.find(name);
  return found == vgpus_.end() ? kNone : found->second;
}

const std::vector<double>& TopHistory::UseOfDevice(const std::string& name) const {
  static const std::vector<double> kNone;
  const auto found = devices_.find(name);
  return found == devices_.end() ? kNone : found->second;
}

}  // namespace weir::cli
