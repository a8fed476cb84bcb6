// SPDX-License-Identifier: Apache-2.0
// What the library exports, without the exported names.
#pragma once

#include "emulator/opencl/cl.h"

namespace weir::emulator::cl {

cl_int CL_API_CALL PlatformIds(cl_uint room, cl_platform_id* platforms, cl_uint* count);
cl_int CL_API_CALL PlatformInfo(cl_platform_id platform, cl_platform_info name, std::size_t room, void* value,
                                std::size_t* size);
void* CL_API_CALL ExtensionFunction(const char* name);

}  // namespace weir::emulator::cl
