// SPDX-License-Identifier: Apache-2.0
// A program: its source or binary, its builds, and its kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "opencl/icd/context.h"
#include "platform/mutex.h"

namespace weir::opencl::icd {

struct DeviceBuild {
  Ref<Device> device;
  cl_build_status status = CL_BUILD_NONE;
  cl_program_binary_type binary_type = CL_PROGRAM_BINARY_TYPE_NONE;
  std::string options{}, log{};
  std::uint64_t global_variables = 0;
  std::vector<std::byte> binary{};  // in its envelope: as the program gave it, or fetched by a query; empty: neither
};

struct Program : Object {
  static constexpr Kind kKind = Kind::kProgram;
  using Kernels = std::vector<std::shared_ptr<const wire::KernelFacts>>;
  explicit Program(Context& of) : Object(kKind, of.link), context(&of) {}
  static void End(Program* program);

  [[nodiscard]] DeviceBuild* BuildOf(const Device& device);
  [[nodiscard]] bool HasExecutable() const;

  Ref<Context> context;
  std::string source;
  bool from_source = false;
  bool from_binary = false;
  std::atomic<std::uint32_t> kernels_made{0};  // number of live kernels: a program with kernels cannot be built again

  platform::Mutex mutex;  // guards the following members
  std::vector<DeviceBuild> builds;
  Kernels kernels;
  bool arg_info = false;  // the program may query its kernels' arguments
};

/// Creates a program for `devices`.
Program* NewProgram(Context& context, std::span<Device* const> devices);
/// Stores the facts in the answer to a build, compile or link. Requires the program's mutex.
void TakeFacts(Program& program, const Answer& answer);
/// Reads a list of devices for a build; empty: all. Returns CL_SUCCESS or the error.
cl_int ReadDevices(Program& program, cl_uint count, const cl_device_id* list, std::vector<std::uint32_t>& ids);

}  // namespace weir::opencl::icd
