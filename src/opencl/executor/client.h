// SPDX-License-Identifier: Apache-2.0
// The client of a session: its memory, its budget, and the messages to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "opencl/channel/handshake.h"
#include "opencl/executor/arrivals.h"
#include "opencl/executor/host_budget.h"
#include "opencl/executor/objects.h"
#include "opencl/executor/replies.h"
#include "platform/shared_memory.h"

namespace weir::opencl {

struct Client {
  /// `all`: the budget of the executor, of which the client gets a limited part.
  Client(const cl_icd_dispatch& cl, Accepted& accepted, const std::shared_ptr<HostBudget>& all);

  [[nodiscard]] bool InArena(std::uint64_t offset, std::uint64_t size) const;
  /// The address of an offset in the arena.
  [[nodiscard]] std::byte* At(std::uint64_t offset) const { return arena.As<std::byte>() + offset; }
  /// The bytes of a blob; an error if it lies outside the arena.
  cl_int View(const proto::cl::Blob& blob, proto::cl::ByteView& bytes) const;

  /// Reports an error to the callbacks of the client's contexts.
  void Complain(cl_int error, const char* attempted) const;
  /// Reports that the client may use the memory behind `ticket` again. 0: there is none.
  void Free(std::uint64_t ticket) const;

  /// Charges an object, and `more` bytes, to the budget before the driver creates the object.
  [[nodiscard]] cl_int Charge(Object& object, std::uint64_t more = 0) const;

  const std::string program;
  const platform::Mapping arena;
  const platform::Mapping buffers;  // buffers of a remote client; empty: the driver allocates them
  const std::shared_ptr<HostBudget> host_budget;
  const std::shared_ptr<Replies> replies;
  const std::shared_ptr<Arrivals> arrivals;  // null: the client shares the arena
  const bool partitions;                     // the client is an executor that runs parts of its launches here
};

}  // namespace weir::opencl
