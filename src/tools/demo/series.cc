// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/series.h"

#include <algorithm>

namespace weir::cli {

std::vector<EnvelopePoint> Envelope(const std::vector<Frame>& frames, std::int64_t begin_ns, std::int64_t end_ns,
                                    std::size_t slices) {
  struct Slice {
    double min = 0, max = 0, sum = 0;
    std::size_t count = 0;
  };
  if (end_ns <= begin_ns || slices == 0) return {};
  std::vector<Slice> all(slices);
  const double slice_ns = static_cast<double>(end_ns - begin_ns) / static_cast<double>(slices);
  for (const Frame& frame : frames) {
    if (frame.end_ns < begin_ns || frame.end_ns >= end_ns) continue;
    const auto index = static_cast<std::size_t>(static_cast<double>(frame.end_ns - begin_ns) / slice_ns);
    Slice& slice = all[std::min(index, slices - 1)];
    const double ms = static_cast<double>(frame.latency_ns) * 1e-6;
    slice.min = slice.count == 0 ? ms : std::min(slice.min, ms);
    slice.max = std::max(slice.max, ms);
    slice.sum += ms;
    ++slice.count;
  }
  std::vector<EnvelopePoint> out;
  for (std::size_t i = 0; i < slices; ++i)
    if (all[i].count > 0)
      out.push_back({(static_cast<double>(i) + 0.5) * slice_ns * 1e-9, all[i].min, all[i].max,
                     all[i].sum / static_cast<double>(all[i].count)});
  return out;
}

std::vector<double> GpuTimeBins(const std::vector<Frame>& frames, std::int64_t begin_ns, std::int64_t end_ns,
                                std::int64_t bin_ns) {
  if (end_ns <= begin_ns || bin_ns <= 0) return {};
  const auto count = static_cast<std::size_t>((end_ns - begin_ns + bin_ns - 1) / bin_ns);
  std::vector<double> bins(count, 0.0);
  for (const Frame& frame : frames) {
    const std::int64_t span = std::max<std::int64_t>(frame.latency_ns, 1);
    const std::int64_t first = std::max(frame.end_ns - span, begin_ns);
    const std::int64_t last = std::min(frame.end_ns, end_ns);
    for (std::int64_t at = first; at < last;) {
      const std::int64_t bin = (at - begin_ns) / bin_ns;
      const std::int64_t until = std::min(last, begin_ns + (bin + 1) * bin_ns);
      bins[static_cast<std::size_t>(bin)] +=
          static_cast<double>(frame.gpu_ns) * static_cast<double>(until - at) / static_cast<double>(span);
      at = until;
    }
  }
  return bins;
}

std::vector<std::vector<double>> ShareBins(const Phase& phase, const std::vector<std::size_t>& programs,
                                           std::int64_t bin_ns) {
  std::vector<std::vector<double>> shares;
  for (const std::size_t program : programs)
    shares.push_back(GpuTimeBins(phase.programs[program].frames, phase.begin_ns, phase.end_ns, bin_ns));
  const std::size_t bins = shares.empty() ? 0 : shares[0].size();
  for (std::size_t i = 0; i < bins; ++i) {
    double all = 0;
    for (const auto& program : shares) all += program[i];
    for (auto& program : shares) program[i] = all > 0 ? program[i] / all : 0;
  }
  return shares;
}

}  // namespace weir::cli
