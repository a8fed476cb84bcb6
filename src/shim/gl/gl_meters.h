// SPDX-License-Identifier: Apache-2.0
// GL's own meter, by timestamps, and the choice among all meters for a GL context.
#pragma once

#include <memory>
#include <string>

#include "shim/common/meter.h"
#include "shim/gl/gl_functions.h"

namespace weir::shim {

/// GPU timestamps around each frame. Results are read some frames later, without waiting. In its first frames the meter
/// compares them with the wall clock. Null if the current context has no timestamps.
std::unique_ptr<Meter> MakeTimerMeter(const GlFunctions& gl);

/// The best meter for the current context. `wanted`: "auto" or the name of a kind (proto::NameOf), to force one.
std::unique_ptr<Meter> ChooseMeter(const GlFunctions& gl, const DeviceCpus& cpus, const std::string& wanted);

}  // namespace weir::shim
