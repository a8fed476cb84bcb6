// SPDX-License-Identifier: Apache-2.0
// Sets arguments of kernels, after a check of what each may be set to (arg_types.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/command_memory.h"
#include "opencl/executor/shared.h"

namespace weir::opencl {

class ArgMessages {
 public:
  ArgMessages(Shared& shared, const Client& client, ClientObjects& objects, CommandMemory& memory)
      : shared_(shared), cl_(*shared.device.cl), client_(client), objects_(objects), memory_(memory) {}
  ArgMessages(const ArgMessages&) = delete;
  ArgMessages& operator=(const ArgMessages&) = delete;

  void Do(const proto::cl::SetArg& m);

 private:
  cl_int MayBeValue(Kernel& kernel, std::uint32_t index, std::size_t size);
  [[nodiscard]] static cl_int MayBeNull(const Kernel& kernel, std::uint32_t index);
  [[nodiscard]] cl_int MayBeSampler(const Kernel& kernel, std::uint32_t index) const;
  [[nodiscard]] cl_int MayBeMemory(const Kernel& kernel, std::uint32_t index, bool image) const;

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  CommandMemory& memory_;
};

}  // namespace weir::opencl
