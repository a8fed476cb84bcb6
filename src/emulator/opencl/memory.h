// SPDX-License-Identifier: Apache-2.0
// Memory of devices.
#pragma once

#include "emulator/opencl/driver.h"

namespace weir::emulator::cl {

/// The device from which memory of a context is allocated: the context's first. Null: the context has no emulated
/// device.
const Driver::Device* DeviceOf(cl_context context);
/// The size of the largest buffer.
std::uint64_t LargestBuffer(const Driver::Device& device);

}  // namespace weir::emulator::cl
