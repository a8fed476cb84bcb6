// SPDX-License-Identifier: Apache-2.0
// Frames as curves of a bounded number of points, however many frames there were.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/demo/plan.h"

namespace weir::cli {

/// The frames that ended within one slice of time. No single slow frame is lost: it is its slice's maximum.
struct EnvelopePoint {
  double time_s = 0;  // the slice's middle, since the beginning
  double min_ms = 0, max_ms = 0, mean_ms = 0;
};

/// Divides [begin_ns, end_ns) into `slices`; slices without a frame are left out.
std::vector<EnvelopePoint> Envelope(const std::vector<Frame>& frames, std::int64_t begin_ns, std::int64_t end_ns,
                                    std::size_t slices);

/// GPU time in each bin of `bin_ns`. A frame's GPU time is spread evenly over its duration, so that bins shorter than a
/// frame do not flicker.
std::vector<double> GpuTimeBins(const std::vector<Frame>& frames, std::int64_t begin_ns, std::int64_t end_ns,
                                std::int64_t bin_ns);

/// Each program's fraction of the GPU time that these programs used in each bin; 0 if none used any.
std::vector<std::vector<double>> ShareBins(const Phase& phase, const std::vector<std::size_t>& programs,
                                           std::int64_t bin_ns);

}  // namespace weir::cli
