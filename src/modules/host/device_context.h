// SPDX-License-Identifier: Apache-2.0
// One device, or one part of a device, and the context in which all runs go on there. By whichever OpenCL the loader
// finds: in a vGPU that is our client library, so that all of it passes the gate.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "modules/module_frames.h"

namespace weir::modules {

class DeviceContext {
 public:
  /// `index` counts over all devices of all platforms, or, with `units` not 0, over parts of that many compute units
  /// of all of them. kUnavailable: there is no OpenCL device, or it answers with an error; kNotFound: no such one.
  static Result<DeviceContext> Open(std::uint32_t index, std::uint32_t units);

  [[nodiscard]] const DeviceFrame& facts() const { return facts_; }
  [[nodiscard]] cl_context context() const { return context_; }
  [[nodiscard]] cl_device_id device() const { return device_; }
  /// In order; `timed`: its events tell times.
  [[nodiscard]] Result<cl_command_queue> MakeQueue(bool timed = false) const;
  /// Does it still compute? An answer takes a write of four bytes.
  [[nodiscard]] Status Probe() const;

 private:
  DeviceContext() = default;

  DeviceFrame facts_;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
};

}  // namespace weir::modules
