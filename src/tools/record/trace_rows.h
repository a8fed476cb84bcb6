// SPDX-License-Identifier: Apache-2.0
// What the control API says, as the parts of a trace (proto/trace.h).
#pragma once

#include "cli/common/frame_rows.h"
#include "cli/common/views.h"
#include "proto/trace.h"

namespace weir::cli {

proto::TraceHeader TraceHeaderOf(const VgpuView& vgpu, const DeviceView& device, std::int64_t start_ns);
/// At the last reading of the driver's account.
proto::TraceCharge TraceChargeOf(const VgpuView& vgpu);
proto::TraceProcess TraceProcessOf(const ProcessView& process);
/// Spans that can't be, as a tenant may report them, are brought within their bounds.
proto::TraceFrame TraceFrameOf(const FrameRow& row, std::uint32_t process);

}  // namespace weir::cli
