// SPDX-License-Identifier: Apache-2.0
// One device or part of a device, and the context of all its runs. The OpenCL implementation is the one that the loader
// finds. In a vGPU that is Weir's client library, so that all commands pass the gate.
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "modules/module_frames.h"

namespace weir::modules {

class DeviceContext {
 public:
  /// `index` counts all devices of all platforms; with `units` not 0 it counts parts of that many compute units.
  /// kUnavailable: there is no OpenCL device, or it returns an error; kNotFound: the index is too large.
  static Result<DeviceContext> Open(std::uint32_t index, std::uint32_t units);

  [[nodiscard]] const DeviceFrame& facts() const { return facts_; }
  [[nodiscard]] cl_context context() const { return context_; }
  [[nodiscard]] cl_device_id device() const { return device_; }
  /// An in-order queue; `timed`: with profiling, so that its events have times.
  [[nodiscard]] Result<cl_command_queue> MakeQueue(bool timed = false) const;
  /// Tests whether the device still computes, with a write of four bytes.
  [[nodiscard]] Status Probe() const;

 private:
  DeviceContext() = default;

  DeviceFrame facts_;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
};

}  // namespace weir::modules
