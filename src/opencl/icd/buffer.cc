// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "opencl/icd/bulk_copy.h"
#include "opencl/icd/memory.h"

namespace weir::opencl::icd {
namespace {

/// Sends the message that creates `memory`, and lists it. Destroys `memory` on failure.
template <typename M>
cl_mem Announce(Memory* memory, M message, cl_int* error) {
  Link& link = *memory->link;
  bool sent = false;
  {
    Link::Sending sending(link);
    if (sending.usable()) {
      message.id = sending.NewId();
      sent = sending.Send(message);
    }
    if (sent) memory->id = message.id;
  }
  if (!sent) {
    Drop(*memory);
    return Refuse(kGone, error);
  }
  link.Enlist(*memory);
  return Give<cl_mem>(memory, error);
}

}  // namespace

namespace api {

cl_mem CreateBufferWithProperties(cl_context handle, const cl_mem_properties* properties, cl_mem_flags flags,
                                  std::size_t size, void* host_ptr, cl_int* error) {
  Context* context = As<Context>(handle);
  if (context == nullptr) return Refuse(CL_INVALID_CONTEXT, error);
  if (properties != nullptr && properties[0] != 0) return Refuse(CL_INVALID_PROPERTY, error);
  if (const cl_int wrong = CheckMemoryFlags(flags, host_ptr, false); wrong != CL_SUCCESS) return Refuse(wrong, error);
  std::uint64_t most = 0;
  for (const auto& device : context->devices) most = std::max(most, device->allocation_max);
  if (size == 0 || size > most) return Refuse(CL_INVALID_BUFFER_SIZE, error);
  Link& link = *context->link;
  if (!link.usable()) return Refuse(kGone, error);
  const auto offset = link.AllocateBuffer(size);
  if (!offset) return Refuse(link.usable() ? CL_MEM_OBJECT_ALLOCATION_FAILURE : kGone, error);

  auto* memory = new Memory(*context);
  memory->flags = flags;
  memory->size = size;
  memory->host_ptr = host_ptr;
  memory->range = {*offset, size};
  memory->at = *offset;
  if (properties != nullptr) memory->given = {0};
  if (host_ptr != nullptr) BulkCopy(memory->bytes(), host_ptr, size);
  return Announce(memory,
                  wire::CreateBuffer{.context = context->id,
                                     .flags = WireFlags(flags),
                                     .size = size,
                                     .offset = *offset,
                                     .filled = host_ptr != nullptr ? std::uint8_t{1} : std::uint8_t{0}},
                  error);
}

cl_mem CreateBuffer(cl_context context, cl_mem_flags flags, std::size_t size, void* host_ptr, cl_int* error) {
  return CreateBufferWithProperties(context, nullptr, flags, size, host_ptr, error);
}

cl_mem CreateSubBuffer(cl_mem handle, cl_mem_flags flags, cl_buffer_create_type type, const void* info, cl_int* error) {
  Memory* parent = As<Memory>(handle);
  if (parent == nullptr || !parent->is_buffer() || parent->parent) return Refuse(CL_INVALID_MEM_OBJECT, error);
  constexpr cl_mem_flags kAccess = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
  constexpr cl_mem_flags kHostPtr = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
  constexpr cl_mem_flags kHostAccess = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
  if ((flags & kHostPtr) != 0 || CheckMemoryFlags(flags, nullptr, false) != CL_SUCCESS)
    return Refuse(CL_INVALID_VALUE, error);
  // A sub-buffer must not allow what its parent forbids.
  const cl_mem_flags whole = parent->flags;
  const bool kernel_wrong =
      ((whole & CL_MEM_WRITE_ONLY) != 0 && (flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY)) != 0) ||
      ((whole & CL_MEM_READ_ONLY) != 0 && (flags & (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY)) != 0);
  const bool host_wrong =
      ((whole & CL_MEM_HOST_WRITE_ONLY) != 0 && (flags & CL_MEM_HOST_READ_ONLY) != 0) ||
      ((whole & CL_MEM_HOST_READ_ONLY) != 0 && (flags & CL_MEM_HOST_WRITE_ONLY) != 0) ||
      ((whole & CL_MEM_HOST_NO_ACCESS) != 0 && (flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)) != 0);
  if (kernel_wrong || host_wrong || type != CL_BUFFER_CREATE_TYPE_REGION || info == nullptr)
    return Refuse(CL_INVALID_VALUE, error);
  cl_buffer_region region;
  std::memcpy(&region, info, sizeof region);
  if (region.origin > parent->size || region.size > parent->size - region.origin)
    return Refuse(CL_INVALID_VALUE, error);
  if (region.size == 0) return Refuse(CL_INVALID_BUFFER_SIZE, error);
  bool aligned = false;
  for (const auto& device : parent->context->devices) aligned = aligned || region.origin % device->base_alignment == 0;
  if (!aligned) return Refuse(CL_MISALIGNED_SUB_BUFFER_OFFSET, error);

  auto* memory = new Memory(*parent->context);
  memory->flags = flags;
  if ((flags & kAccess) == 0) memory->flags |= whole & kAccess;
  if ((flags & kHostAccess) == 0) memory->flags |= whole & kHostAccess;
  memory->flags |= whole & kHostPtr;
  memory->size = region.size;
  memory->parent = Ref<Memory>(parent);
  memory->origin = region.origin;
  memory->at = parent->at + region.origin;
  if (parent->host_ptr != nullptr) memory->host_ptr = static_cast<std::byte*>(parent->host_ptr) + region.origin;
  return Announce(
      memory,
      wire::CreateSubBuffer{
          .parent = parent->id, .flags = WireFlags(memory->flags), .origin = region.origin, .size = region.size},
      error);
}

}  // namespace api
}  // namespace weir::opencl::icd
