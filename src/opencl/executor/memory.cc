// SPDX-License-Identifier: Apache-2.0
// Device memory: made when it is first used, returned when the driver has no more use for it.
#include "opencl/executor/session.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

/// What is to happen when a memory object is gone for good.
struct Gone {
  std::shared_ptr<Quota> quota;
  std::uint64_t charged;
  std::shared_ptr<Replies> replies;
  std::uint64_t ticket;

  void Tell() const {
    if (quota) quota->Return(charged);
    if (ticket != 0 && replies) replies->Send(wire::Freed{.ticket = ticket});
  }
};

void CL_CALLBACK WhenGone(cl_mem, void* data) {
  const std::unique_ptr<Gone> gone(static_cast<Gone*>(data));
  gone->Tell();
}

}  // namespace

Memory::~Memory() {
  auto gone = std::make_unique<Gone>(Gone{std::move(quota), charged, std::move(replies), ticket});
  // Commands that were enqueued keep the native object, and with it the range it lies in.
  if (native != nullptr && cl.clSetMemObjectDestructorCallback(native, WhenGone, gone.get()) == CL_SUCCESS) {
    static_cast<void>(gone.release());
  } else {
    gone->Tell();
  }
  if (native != nullptr) cl.clReleaseMemObject(native);
}

cl_int Session::Use(std::uint32_t id, Memory*& memory) {
  cl_int error = objects_.Find(id, memory);
  if (error == CL_SUCCESS && memory->native == nullptr) error = Materialise(*memory);
  return error;
}

cl_int Session::Materialise(Memory& memory) {
  if (memory.native != nullptr) return CL_SUCCESS;
  cl_int error = CL_SUCCESS;
  if (memory.parent) {  // of a sub-buffer: images are made at once
    error = Materialise(*memory.parent);
    if (error != CL_SUCCESS) return error;
    const cl_buffer_region region{memory.origin, memory.size};
    memory.native =
        cl_.clCreateSubBuffer(memory.parent->native, memory.flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  } else if (memory.context->in_host_memory) {
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | CL_MEM_USE_HOST_PTR, memory.size,
                                       memory.host, &error);
  } else {
    const cl_mem_flags content = memory.filled ? CL_MEM_COPY_HOST_PTR : 0;
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | content, memory.size,
                                       memory.filled ? memory.host : nullptr, &error);
  }
  if (error != CL_SUCCESS) memory.error = error;
  return error;
}

}  // namespace weir::opencl
