// SPDX-License-Identifier: Apache-2.0
// Makes a program a tenant: a vGPU, and the environment that loads the shim and the client library and connects both to
// the vGPU.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/common/control_client.h"
#include "cli/common/settings.h"
#include "cli/common/views.h"

namespace weir::cli {

/// "glmark2-4242": letters, digits and "._-" of the program's name, then the pid of the process that owns the vGPU.
std::string EphemeralName(const std::string& program, pid_t owner);

/// Makes a vGPU that ends with this process.
Result<VgpuView> MakeEphemeralVgpu(const ControlClient& client, const std::string& name, const GivenSettings& settings);

using Environment = std::vector<std::pair<std::string, std::string>>;

/// The environment of a tenant of `vgpu`: WEIR_ATTACH and LD_PRELOAD, WEIR_VULKAN_LAYER and XDG_DATA_DIRS, what
/// OpenClEnvironment returns, and what the device needs. `library`: Weir's, which is added to the present value of
/// LD_PRELOAD.
Result<Environment> TenantEnvironment(const VgpuView& vgpu, const std::string& library);

/// The environment in which OpenCL's programs find Weir's client library and no vendor's, because they would bypass the
/// vGPU with it: WEIR_OPENCL, and a libOpenCL of Weir in LD_LIBRARY_PATH. For programs that bring an ICD loader of
/// their own, OCL_ICD_VENDORS names Weir's driver, and OCL_ICD_FILENAMES, which adds drivers to it, is empty.
/// `library`: one of Weir's libraries for tenants.
Environment OpenClEnvironment(const std::string& socket, const std::string& library);

}  // namespace weir::cli
