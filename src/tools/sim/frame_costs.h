// SPDX-License-Identifier: Apache-2.0
// What each frame of a trace cost the device. Pure; docs/replay.md.
#pragma once

#include <vector>

#include "base/units.h"
#include "proto/trace.h"

namespace weir::cli {

/// The part of a frame's time that lies within a span: 0 … 1.
double PartInside(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t from_ns, std::int64_t to_ns);

/// The cost of each frame, in the trace's order. Where the trace has charges, the costs of the frames between two of
/// them, a second and more apart, add up to what was charged. In between they are in proportion to what the program's
/// meter said, as far as that is of single frames: timestamps come some frames late, and the wall clock says how long
/// others had the device.
std::vector<Duration> FrameCosts(const proto::Trace& trace);

}  // namespace weir::cli
