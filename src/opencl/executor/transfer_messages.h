// SPDX-License-Identifier: Apache-2.0
// Commands that transfer contents of buffers and images.
#pragma once

#include <cstddef>
#include <cstdint>

#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/command_memory.h"
#include "opencl/executor/commands.h"
#include "opencl/executor/partitioned_launches.h"
#include "proto/opencl_command_messages.h"

namespace weir::opencl {

class TransferMessages {
 public:
  TransferMessages(const cl_icd_dispatch& cl, const Client& client, ClientObjects& objects, CommandMemory& memory,
                   Commands& commands, PartitionedLaunches& parts)
      : cl_(cl), client_(client), objects_(objects), memory_(memory), commands_(commands), parts_(parts) {}
  TransferMessages(const TransferMessages&) = delete;
  TransferMessages& operator=(const TransferMessages&) = delete;

  // One for each of these commands; without a definition the executor does not link.
#define WEIR_DO(Message) void Do(const proto::cl::Message& m);
  WEIR_CL_TRANSFERS(WEIR_DO)
#undef WEIR_DO

 private:
  /// Reports `what` to a remote client when `read` has ended.
  void WillArrive(const proto::cl::Enqueue& enqueue, cl_event read, const proto::cl::Arrived& what);
  bool InPlace(const proto::cl::ReadBuffer& m, const Memory& buffer, proto::cl::Arrived& arrived);
  /// As CommandMemory::InHostMemory.
  std::byte* InHostMemory(const proto::cl::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                          std::uint64_t size, bool writes);

  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  CommandMemory& memory_;
  Commands& commands_;
  PartitionedLaunches& parts_;
};

}  // namespace weir::opencl
