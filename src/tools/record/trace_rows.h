// SPDX-License-Identifier: Apache-2.0
// Converts values of the control API to the parts of a trace (proto/trace.h).
#pragma once

#include "cli/common/frame_rows.h"
#include "cli/common/views.h"
#include "proto/trace.h"

namespace weir::cli {

proto::TraceHeader TraceHeaderOf(const VgpuView& vgpu, const DeviceView& device, std::int64_t start_ns);
/// The vGPU's charged GPU time at the last reading of the driver's account.
proto::TraceCharge TraceChargeOf(const VgpuView& vgpu);
proto::TraceProcess TraceProcessOf(const ProcessView& process);
/// Clamps impossible spans, because a tenant may report any values.
proto::TraceFrame TraceFrameOf(const FrameRow& row, std::uint32_t process);

}  // namespace weir::cli
