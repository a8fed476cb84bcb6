// SPDX-License-Identifier: Apache-2.0
// Commands that run kernels, and those that order commands or wait for them.
#pragma once

#include <atomic>

#include "opencl/executor/batches.h"
#include "opencl/executor/client.h"
#include "opencl/executor/client_objects.h"
#include "opencl/executor/command_memory.h"
#include "opencl/executor/commands.h"
#include "opencl/executor/event_ends.h"
#include "opencl/executor/partitioned_launches.h"
#include "opencl/executor/shared.h"
#include "opencl/executor/slices.h"
#include "proto/opencl_command_messages.h"

namespace weir::opencl {

class CommandMessages {
 public:
  /// `stop`: ends a launch between two pieces.
  CommandMessages(Shared& shared, const Client& client, ClientObjects& objects, Batches& batches, CommandMemory& memory,
                  Commands& commands, EventEnds& ends, PartitionedLaunches& parts, const std::atomic<bool>& stop)
      : shared_(shared),
        cl_(*shared.device.cl),
        client_(client),
        objects_(objects),
        batches_(batches),
        memory_(memory),
        commands_(commands),
        ends_(ends),
        parts_(parts),
        stop_(stop) {}
  CommandMessages(const CommandMessages&) = delete;
  CommandMessages& operator=(const CommandMessages&) = delete;

  void Do(const proto::cl::NdRange& m);
  // One for each of these commands; without a definition the executor does not link.
#define WEIR_DO(Message) void Do(const proto::cl::Message& m);
  WEIR_CL_ORDERS(WEIR_DO)
#undef WEIR_DO
  void Do(const proto::cl::Finish& m);
  void Do(const proto::cl::Watch& m);

 private:
  cl_int LaunchOne(Queue& queue, Kernel& kernel, const Launch& launch, const Admission::Entry& entry, cl_event& event);
  /// Counts a submitted launch, which is a task, or a part of one that a marker will end.
  void CountLaunch(Queue& queue);

  Shared& shared_;
  const cl_icd_dispatch& cl_;
  const Client& client_;
  ClientObjects& objects_;
  Batches& batches_;
  CommandMemory& memory_;
  Commands& commands_;
  EventEnds& ends_;
  PartitionedLaunches& parts_;
  const std::atomic<bool>& stop_;
};

}  // namespace weir::opencl
