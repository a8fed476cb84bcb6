// SPDX-License-Identifier: Apache-2.0
#include "opencl/icd/memory.h"

#include <bit>

#include "opencl/icd/bulk_copy.h"
#include "opencl/icd/info.h"

namespace weir::opencl::icd {

void Memory::End(Memory* memory) {
  Link& link = *memory->link;
  link.Delist(*memory);
  std::vector<std::function<void()>> callbacks(memory->destructor_callbacks.rbegin(),
                                               memory->destructor_callbacks.rend());
  const bool known = memory->id != 0 && link.usable();
  if (known) {
    const bool waits = !callbacks.empty();
    std::uint64_t ticket = 0;
    if (waits || memory->range.bytes != 0)
      ticket = link.NewTicket(memory->range, std::move(callbacks), waits ? 0 : wire::kNobodyWaits);
    link.Release(memory->id, ticket);
    callbacks.clear();
  } else {
    link.Free(memory->range);
  }
  delete memory;
  for (auto& callback : callbacks) callback();
}

cl_int CheckMemory(const void* handle, const Context& context, bool buffer, Memory*& memory) {
  memory = As<Memory>(handle);
  if (memory == nullptr || memory->is_buffer() != buffer) return CL_INVALID_MEM_OBJECT;
  return memory->context.get() == &context ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

cl_int CheckMemoryFlags(cl_mem_flags flags, const void* host_ptr, bool image) {
  constexpr cl_mem_flags kAccess = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
  constexpr cl_mem_flags kHostPtr = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
  constexpr cl_mem_flags kHostAccess = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
  if ((flags & ~(kAccess | kHostPtr | kHostAccess | CL_MEM_KERNEL_READ_AND_WRITE)) != 0) return CL_INVALID_VALUE;
  if ((flags & CL_MEM_KERNEL_READ_AND_WRITE) != 0 && !image) return CL_INVALID_VALUE;
  if (std::popcount(flags & kAccess) > 1 || std::popcount(flags & kHostAccess) > 1) return CL_INVALID_VALUE;
  if ((flags & CL_MEM_USE_HOST_PTR) != 0 && (flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0)
    return CL_INVALID_VALUE;
  const bool wants_pointer = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
  return wants_pointer == (host_ptr != nullptr) ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

bool StagedContent::Make(Link& link, std::size_t bytes) {
  if (bytes <= wire::kInlineBytesMax) {
    small_.resize(bytes);
    into_ = small_.data();
    blob_ = wire::Blob::Inline(small_);
    return true;
  }
  const auto offset = link.AllocateStaging(bytes);
  if (!offset) return false;
  into_ = link.arena() + *offset;
  blob_ = wire::Blob::Arena(*offset, bytes);
  ticket_ = link.NewTicket({*offset, bytes});
  return true;
}

bool StagedContent::Of(Link& link, const void* from, std::size_t bytes, bool of_more) {
  if (bytes <= wire::kInlineBytesMax) {
    blob_ = wire::Blob::Inline({static_cast<const std::byte*>(from), bytes});
    return true;
  }
  if (!Make(link, bytes)) return false;
  (of_more ? StreamCopy : BulkCopy)(into_, from, bytes);
  return true;
}

namespace api {

cl_int RetainMemObject(cl_mem memory) { return RetainHandle<Memory>(memory, CL_INVALID_MEM_OBJECT); }
cl_int ReleaseMemObject(cl_mem memory) { return ReleaseHandle<Memory>(memory, CL_INVALID_MEM_OBJECT); }

cl_int GetMemObjectInfo(cl_mem handle, cl_mem_info name, std::size_t size, void* value, std::size_t* size_ret) {
  const Memory* memory = As<Memory>(handle);
  if (memory == nullptr) return CL_INVALID_MEM_OBJECT;
  const InfoAnswer answer{size, value, size_ret};
  switch (name) {
    case CL_MEM_TYPE: return answer.Value(memory->type);
    case CL_MEM_FLAGS: return answer.Value(memory->flags);
    case CL_MEM_SIZE: return answer.Value(memory->size);
    case CL_MEM_HOST_PTR: return answer.Value(memory->uses_host_ptr() ? memory->host_ptr : nullptr);
    case CL_MEM_MAP_COUNT: {
      const Link::StateLock lock(*memory->link);
      return answer.Value(static_cast<cl_uint>(memory->maps.size()));
    }
    case CL_MEM_REFERENCE_COUNT: return answer.Value(static_cast<cl_uint>(memory->references.load()));
    case CL_MEM_CONTEXT: return answer.Object<cl_context>(memory->context.get());
    case CL_MEM_ASSOCIATED_MEMOBJECT: return answer.Object<cl_mem>(memory->parent.get());
    case CL_MEM_OFFSET: return answer.Value(memory->origin);
    case CL_MEM_USES_SVM_POINTER: return answer.Value(static_cast<cl_bool>(CL_FALSE));
    case CL_MEM_PROPERTIES: return answer.List<cl_mem_properties>(memory->given);
    default: return CL_INVALID_VALUE;
  }
}

cl_int SetMemObjectDestructorCallback(cl_mem handle, void(CL_CALLBACK* call)(cl_mem, void*), void* user) {
  Memory* memory = As<Memory>(handle);
  if (memory == nullptr) return CL_INVALID_MEM_OBJECT;
  if (call == nullptr) return CL_INVALID_VALUE;
  const Link::StateLock lock(*memory->link);
  memory->destructor_callbacks.emplace_back([call, handle, user] { call(handle, user); });
  return CL_SUCCESS;
}

}  // namespace api
}  // namespace weir::opencl::icd
