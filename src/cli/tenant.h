// SPDX-License-Identifier: Apache-2.0
// What makes a program a tenant: a vGPU, and the variables that bring the shim and the OpenCL client into it, and both
// to the vGPU.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/control_client.h"
#include "cli/settings.h"
#include "cli/views.h"

namespace weir::cli {

/// "glmark2-4242": letters, digits and "._-" of the program's name, then the process that the vGPU ends with.
std::string EphemeralName(const std::string& program, pid_t owner);

/// Ends with this process.
Result<VgpuView> MakeEphemeralVgpu(const ControlClient& client, const std::string& name, const VgpuSettings& settings);

/// For a tenant of `vgpu`: WEIR_ATTACH and LD_PRELOAD, WEIR_OPENCL and OCL_ICD_VENDORS; `library` goes behind what
/// LD_PRELOAD holds now.
Result<std::vector<std::pair<std::string, std::string>>> TenantEnvironment(const VgpuView& vgpu,
                                                                           const std::string& library);

}  // namespace weir::cli
