// SPDX-License-Identifier: Apache-2.0
// A program: its source or binary, how its builds went, and what its kernels are.
#pragma once

#include <pthread.h>

#include <memory>
#include <string>
#include <vector>

#include "opencl/icd/context.h"

namespace weir::opencl::icd {

struct DeviceBuild {
  Ref<Device> device;
  cl_build_status status = CL_BUILD_NONE;
  cl_program_binary_type binary_type = CL_PROGRAM_BINARY_TYPE_NONE;
  std::string options{}, log{};
  std::uint64_t global_variables = 0;
  std::vector<std::byte> binary{};  // in its envelope, once it has been asked for; or as it was given
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
  std::atomic<std::uint32_t> kernels_made{0};  // that live: a program with kernels is not built again

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // of what follows
  std::vector<DeviceBuild> builds;
  Kernels kernels;
  bool arg_info = false;  // the program may ask for its kernels' arguments
};

/// Makes a program with the devices of a context, or those given.
Program* NewProgram(Context& context, std::span<Device* const> devices);
/// Takes over what an answer to a build, compile or link says. Under the program's mutex.
void TakeFacts(Program& program, const Answer& answer);
/// Of a list of devices for a build; empty: all. CL_SUCCESS or what is wrong.
cl_int ReadDevices(Program& program, cl_uint count, const cl_device_id* list, std::vector<std::uint32_t>& ids);

}  // namespace weir::opencl::icd
