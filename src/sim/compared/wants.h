// SPDX-License-Identifier: Apache-2.0
// What a published scheduler calls a request, in terms of the gate.
#pragma once

#include "core/schedule/policy.h"

namespace weir::sim {

/// What lets one frame or kernel pass: the gate reserves its cost, and then the allowance is used up.
inline constexpr Duration kOnePasses = microseconds(1);

/// What a vGPU may use until the next decision where use has no limit. Its gate is not open, because an agent at an
/// open gate does not tell frames from presents that wait for a vertical blank.
inline constexpr Duration kFree = seconds(10);

/// It has a request that has not begun. One that its cap holds back could not begin.
inline bool Waits(const core::VgpuView& vgpu) { return vgpu.attached && vgpu.waiting > 0 && !vgpu.held; }

/// It is backlogged: it has a request that has not ended.
inline bool Wants(const core::VgpuView& vgpu) { return vgpu.attached && (vgpu.in_flight > 0 || Waits(vgpu)); }

/// Decisions go on for this long after the last activity.
inline constexpr Duration kAwakeFor = milliseconds(100);

}  // namespace weir::sim
