// SPDX-License-Identifier: Apache-2.0
// PoCL, below the driver. The first word of each of its objects points to one table of functions. Programs and loaders
// call through that table; PoCL itself does not. So the table is copied, and changed in place.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"
#include "emulator/opencl/cl.h"

namespace weir::emulator::cl {

struct Backend {
  cl_platform_id platform = nullptr;
  cl_icd_dispatch* table = nullptr;  // what programs call; ours after Replace
  std::vector<cl_device_id> devices;
  std::vector<pid_t> workers;
};

/// Loads PoCL with this many devices. Once in a process.
Result<Backend> LoadBackend(std::size_t devices);

/// PoCL's own functions.
const cl_icd_dispatch& Pocl();

/// Puts the driver's functions into PoCL's table.
Status Replace(cl_icd_dispatch& table);

/// Makes a table in which every function fails with CL_OUT_OF_RESOURCES.
void FailAllCalls(cl_icd_dispatch& table);

// The driver's functions, by the file that has them.
void AddDeviceCalls(cl_icd_dispatch& table);
void AddQueueCalls(cl_icd_dispatch& table);
void AddEventCalls(cl_icd_dispatch& table);
void AddMemoryCalls(cl_icd_dispatch& table);
void AddBufferCommands(cl_icd_dispatch& table);
void AddImageCommands(cl_icd_dispatch& table);
void AddKernelCommands(cl_icd_dispatch& table);
void AddOrderCommands(cl_icd_dispatch& table);
void AddSvmCommands(cl_icd_dispatch& table);

}  // namespace weir::emulator::cl
