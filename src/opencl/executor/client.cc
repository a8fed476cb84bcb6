// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/client.h"

#include <utility>

namespace weir::opencl {

namespace wire = proto::cl;

Client::Client(const cl_icd_dispatch& cl, Accepted& accepted, const std::shared_ptr<HostBudget>& all)
    : program(std::move(accepted.program)),
      arena(std::move(accepted.arena)),
      buffers(std::move(accepted.buffers)),
      host_budget(std::make_shared<HostBudget>(HostBudget::kSessionBytesMax, all)),
      replies(std::make_shared<Replies>(std::move(accepted.channel.out), host_budget)),
      arrivals(accepted.remote ? std::make_shared<Arrivals>(cl, replies) : nullptr),
      partitions(program.starts_with(kPartsProgram)) {}

bool Client::InArena(std::uint64_t offset, std::uint64_t size) const {
  return offset <= arena.bytes() && size <= arena.bytes() - offset;
}

cl_int Client::View(const wire::Blob& blob, wire::ByteView& bytes) const {
  if (blob.kind == wire::Blob::kInline) {
    bytes = blob.bytes;
    return CL_SUCCESS;
  }
  if (!InArena(blob.offset, blob.size)) return CL_INVALID_VALUE;
  bytes = {At(blob.offset), blob.size};
  return CL_SUCCESS;
}

void Client::Complain(cl_int error, const char* attempted) const {
  replies->Send(wire::Notice{.context = 0, .status = error, .text = attempted});
}

void Client::Free(std::uint64_t ticket) const {
  if (ticket != 0) replies->Send(wire::Freed{.ticket = ticket});
}

cl_int Client::Charge(Object& object, std::uint64_t more) const {
  return object.host.Take(host_budget, HostBytesOf(object.kind) + more) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

}  // namespace weir::opencl
