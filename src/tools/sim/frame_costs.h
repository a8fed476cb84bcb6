// SPDX-License-Identifier: Apache-2.0
// Computes the device time that each frame of a trace cost. Pure. Page: docs/replay.md
#pragma once

#include <vector>

#include "base/units.h"
#include "proto/trace.h"

namespace weir::cli {

/// The part of a frame's time that lies within a span: 0 … 1.
double PartInside(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t from_ns, std::int64_t to_ns);

/// The cost of each frame, in the trace's order. If the trace has charges, the costs of the frames between two charges
/// that are at least a second apart add up to the charged time. Between these charges, costs are in proportion to the
/// values of the program's meter, as far as these describe single frames: timestamps come some frames late, and the
/// wall clock includes the time for which other programs had the device.
std::vector<Duration> FrameCosts(const proto::Trace& trace);

}  // namespace weir::cli
