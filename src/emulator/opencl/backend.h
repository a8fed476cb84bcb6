// SPDX-License-Identifier: Apache-2.0
// PoCL, below the driver. The first word of each of PoCL's objects points to one table of functions. Programs and
// loaders call through that table, PoCL itself does not. The driver therefore keeps a copy of the table (Pocl) and
// changes the table in place.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/result.h"
#include "emulator/opencl/cl.h"

namespace weir::emulator::cl {

struct Backend {
  cl_platform_id platform = nullptr;
  cl_icd_dispatch* table = nullptr;  // the functions that programs call; the driver's after Replace
  std::vector<cl_device_id> devices;
  std::vector<pid_t> workers;
};

/// Loads PoCL with this many devices. Called once in a process.
Result<Backend> LoadBackend(std::size_t devices);

/// PoCL's own functions.
const cl_icd_dispatch& Pocl();

/// Puts the driver's functions into PoCL's table.
Status Replace(cl_icd_dispatch& table);

/// Makes a table in which every function fails with CL_OUT_OF_RESOURCES.
void FailAllCalls(cl_icd_dispatch& table);

// Each of these sets the driver's functions of one file in the table.
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
