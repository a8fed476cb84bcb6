// SPDX-License-Identifier: Apache-2.0
// Device memory: allocated at its first use, returned to the quota when the driver has freed it.
#include <cstring>

#include "opencl/executor/session.h"

namespace weir::opencl {
Memory::~Memory() {
  if (stored) {
    // The thread that has pinned or moves it drops the last reference.
    stored->gone = std::move(gone);
  } else {
    ReleaseAndTell(cl, native, std::move(gone));
  }
}

cl_int Session::Materialise(Memory& memory) {
  if (memory.native != nullptr) return CL_SUCCESS;
  cl_int error = CL_SUCCESS;
  if (memory.parent) {  // a sub-buffer: images are created at once
    error = Materialise(*memory.parent);
    if (error != CL_SUCCESS) return error;
    const cl_buffer_region region{memory.origin, memory.size};
    memory.native =
        cl_.clCreateSubBuffer(memory.parent->native, memory.flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  } else if (memory.context->in_host_memory) {
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | CL_MEM_USE_HOST_PTR, memory.size,
                                       memory.host, &error);
  } else if (memory.placed != nullptr) {
    if (memory.filled) std::memcpy(memory.placed, memory.host, memory.size);
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | CL_MEM_USE_HOST_PTR, memory.size,
                                       memory.placed, &error);
  } else {
    const cl_mem_flags content = memory.filled ? CL_MEM_COPY_HOST_PTR : 0;
    memory.native = cl_.clCreateBuffer(memory.context->native, memory.flags | content, memory.size,
                                       memory.filled ? memory.host : nullptr, &error);
    if (error == CL_SUCCESS && !memory.filled) error = ClearNew(*memory.context, memory.native, memory.size);
  }
  if (error != CL_SUCCESS) memory.error = error;
  return error;
}

}  // namespace weir::opencl
