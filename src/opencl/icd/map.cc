// SPDX-License-Identifier: Apache-2.0
// Mapping. On a device that works in the arena, a buffer is mapped in place. On other devices its arena range is read
// into at map and written from at unmap. For CL_MEM_USE_HOST_PTR the program gets its own memory, and bytes are copied
// between it and the range at map and unmap. An image is mapped as a packed copy.
#include <algorithm>
#include <cstring>

#include "opencl/icd/box_copy.h"
#include "opencl/icd/bulk_copy.h"
#include "opencl/icd/enqueue.h"
#include "opencl/icd/memory.h"

namespace weir::opencl::icd {
namespace {

constexpr cl_map_flags kKnown = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

cl_int CheckMap(const Memory& memory, cl_map_flags flags) {
  if ((flags & ~kKnown) != 0) return CL_INVALID_VALUE;
  if ((flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0 && (flags & (CL_MAP_READ | CL_MAP_WRITE)) != 0)
    return CL_INVALID_VALUE;
  if ((flags & CL_MAP_READ) != 0 && (memory.flags & kHostMayNotRead) != 0) return CL_INVALID_OPERATION;
  if ((flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0 && (memory.flags & kHostMayNotWrite) != 0)
    return CL_INVALID_OPERATION;
  return CL_SUCCESS;
}

void Remember(Memory& memory, const MappedRegion& region) {
  const Link::StateLock lock(*memory.link);
  memory.maps.push_back(region);
}

bool Forget(Memory& memory, const void* pointer, MappedRegion& region) {
  const Link::StateLock lock(*memory.link);
  // Searches from the most recent map: if a region is mapped several times, an unmap ends the last map.
  const auto at = std::find_if(memory.maps.rbegin(), memory.maps.rend(),
                               [pointer](const MappedRegion& mapped) { return mapped.pointer == pointer; });
  if (at == memory.maps.rend()) return false;
  region = *at;
  memory.maps.erase(std::next(at).base());
  return true;
}

/// Whether an unmap has contents to write. To its own memory the program can have written only once it can know that
/// the map has ended, because the end of the map writes to that memory, too.
bool IsWritten(const Memory& memory, const MappedRegion& region) {
  return region.for_writing() && (!memory.uses_host_ptr() || !region.map || HasEnded(*region.map));
}

cl_int MapBuffer(Command& command, Memory& buffer, bool blocking, MappedRegion& region) {
  const bool wanted = (region.flags & CL_MAP_WRITE_INVALIDATE_REGION) == 0;
  const bool reads = wanted && !command.queue().works_in_arena();
  std::byte* const in_arena = buffer.bytes() + region.offset;
  const bool at_once = command.waits_for_nothing() && !reads;
  if (at_once || command.may_complete_locally() || (blocking && command.may_be_done_here_after_waiting())) {
    const cl_int error = at_once ? CL_SUCCESS : command.WaitUntilItMay();
    if (error != CL_SUCCESS) return error;
    if (buffer.uses_host_ptr() && wanted) BulkCopy(region.pointer, in_arena, region.size);
    return command.CompleteLocally(CL_COMMAND_MAP_BUFFER);
  }
  std::unique_ptr<Arrival> arrival;
  if (buffer.uses_host_ptr() && wanted)
    arrival = std::make_unique<Arrival>(Arrival{.from = buffer.at + region.offset,
                                                .to = region.pointer,
                                                .box = {region.size, 1, 1},
                                                .row_pitch = region.size,
                                                .slice_pitch = region.size});
  else if (buffer.uses_host_ptr() || reads || blocking)
    arrival = NoData();
  cl_int error = CL_SUCCESS;
  if (reads) {
    wire::ReadBuffer read{
        .buffer = buffer.id, .offset = region.offset, .size = region.size, .to = buffer.at + region.offset};
    error = command.Send(read, CL_COMMAND_MAP_BUFFER, std::move(arrival));
  } else {
    wire::Marker marker;
    error = command.Send(marker, CL_COMMAND_MAP_BUFFER, std::move(arrival));
  }
  region.map = command.made();
  return error == CL_SUCCESS && blocking ? command.WaitForIt() : error;
}

cl_int UnmapBuffer(Command& command, Memory& buffer, const MappedRegion& region) {
  const bool written = IsWritten(buffer, region);
  const bool writes = written && !command.queue().works_in_arena();
  // No command on the device may access the region while the program may write to it, so that no wait is needed.
  if (buffer.uses_host_ptr() && written) BulkCopy(buffer.bytes() + region.offset, region.pointer, region.size);
  if (command.may_complete_locally() || (command.waits_for_nothing() && !writes))
    return command.CompleteLocally(CL_COMMAND_UNMAP_MEM_OBJECT);
  if (!writes) {
    wire::Marker marker;
    return command.Send(marker, CL_COMMAND_UNMAP_MEM_OBJECT);
  }
  wire::WriteBuffer write{.buffer = buffer.id,
                          .offset = region.offset,
                          .content = wire::Blob::Arena(buffer.at + region.offset, region.size)};
  return command.Send(write, CL_COMMAND_UNMAP_MEM_OBJECT);
}

void CopyBox3(std::uint64_t (&to)[3], const std::size_t (&from)[3]) {
  for (int i = 0; i < 3; ++i) to[i] = from[i];
}

cl_int UnmapImage(Command& command, Memory& image, const MappedRegion& region) {
  Link& link = command.link();
  if (!IsWritten(image, region)) {
    if (command.waits_for_nothing() && (!region.map || region.map->done())) {
      link.Free(region.staging);
      return command.CompleteLocally(CL_COMMAND_UNMAP_MEM_OBJECT);
    }
    // A map that was not waited for may still be copying to the region.
    wire::Marker marker;
    return command.Send(marker, CL_COMMAND_UNMAP_MEM_OBJECT,
                        std::make_unique<Arrival>(Arrival{.box = {0, 0, 0}, .free_after = region.staging}));
  }
  const ImageBox box{{region.origin[0], region.origin[1], region.origin[2]},
                     {region.region[0], region.region[1], region.region[2]}};
  std::size_t bytes[3];
  BytesOfBox(image, box, bytes);
  std::byte* const packed = link.arena() + region.staging.offset;
  if (image.uses_host_ptr())
    CopyBox(Packed(packed, bytes), {region.pointer, region.row_pitch, region.slice_pitch}, bytes);
  wire::WriteImage write{.image = image.id,
                         .content = wire::Blob::Arena(region.staging.offset, region.staging.bytes),
                         .ticket = link.NewTicket(region.staging)};
  CopyBox3(write.origin, region.origin);
  CopyBox3(write.region, region.region);
  return command.Send(write, CL_COMMAND_UNMAP_MEM_OBJECT);
}

}  // namespace

namespace api {

void* EnqueueMapBuffer(cl_command_queue queue, cl_mem handle, cl_bool blocking, cl_map_flags flags, std::size_t offset,
                       std::size_t size, cl_uint wait_count, const cl_event* wait_list, cl_event* event,
                       cl_int* error) {
  Command command;
  if (const cl_int wrong = command.Open(queue, wait_count, wait_list, event); wrong != CL_SUCCESS)
    return Refuse(wrong, error);
  Memory* buffer = nullptr;
  if (const cl_int wrong = CheckMemory(handle, *command.queue().context, true, buffer); wrong != CL_SUCCESS)
    return Refuse(wrong, error);
  if (size == 0 || offset > buffer->size || size > buffer->size - offset) return Refuse(CL_INVALID_VALUE, error);
  if (const cl_int wrong = CheckMap(*buffer, flags); wrong != CL_SUCCESS) return Refuse(wrong, error);
  std::byte* const pointer =
      (buffer->uses_host_ptr() ? static_cast<std::byte*>(buffer->host_ptr) : buffer->bytes()) + offset;
  MappedRegion region{.pointer = pointer, .flags = flags, .offset = offset, .size = size};
  if (const cl_int wrong = MapBuffer(command, *buffer, blocking != CL_FALSE, region); wrong != CL_SUCCESS)
    return Refuse(wrong, error);
  Remember(*buffer, region);
  return Give<void*>(pointer, error);
}

void* EnqueueMapImage(cl_command_queue queue, cl_mem handle, cl_bool blocking, cl_map_flags flags,
                      const std::size_t* origin, const std::size_t* region, std::size_t* row_pitch,
                      std::size_t* slice_pitch, cl_uint wait_count, const cl_event* wait_list, cl_event* event,
                      cl_int* error) {
  Command command;
  if (const cl_int wrong = command.Open(queue, wait_count, wait_list, event); wrong != CL_SUCCESS)
    return Refuse(wrong, error);
  Memory* image = nullptr;
  if (const cl_int wrong = CheckMemory(handle, *command.queue().context, false, image); wrong != CL_SUCCESS)
    return Refuse(wrong, error);
  ImageBox box;
  if (const cl_int wrong = CheckImageBox(*image, origin, region, box); wrong != CL_SUCCESS) return Refuse(wrong, error);
  const bool has_slices = image->type == CL_MEM_OBJECT_IMAGE3D || image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY ||
                          image->type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  if (row_pitch == nullptr || (has_slices && slice_pitch == nullptr)) return Refuse(CL_INVALID_VALUE, error);
  if (const cl_int wrong = CheckMap(*image, flags); wrong != CL_SUCCESS) return Refuse(wrong, error);

  Link& link = command.link();
  std::size_t bytes[3];
  BytesOfBox(*image, box, bytes);
  const std::size_t size = bytes[0] * bytes[1] * bytes[2];
  const auto offset = link.AllocateStaging(size);
  if (!offset) return Refuse(link.usable() ? CL_MAP_FAILURE : kGone, error);
  MappedRegion mapped{.pointer = link.arena() + *offset,
                      .flags = flags,
                      .origin = {origin[0], origin[1], origin[2]},
                      .region = {region[0], region[1], region[2]},
                      .row_pitch = bytes[0],
                      .slice_pitch = bytes[0] * bytes[1],
                      .staging = {*offset, size}};
  if (image->uses_host_ptr()) {
    mapped.row_pitch = image->host_row_pitch;
    mapped.slice_pitch = image->host_slice_pitch;
    mapped.pointer = static_cast<std::byte*>(image->host_ptr) + origin[0] * image->element_bytes +
                     origin[1] * mapped.row_pitch + origin[2] * mapped.slice_pitch;
  }
  cl_int wrong = CL_SUCCESS;
  if ((flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0 && command.waits_for_nothing()) {
    wrong = command.CompleteLocally(CL_COMMAND_MAP_IMAGE);
  } else if ((flags & CL_MAP_WRITE_INVALIDATE_REGION) != 0) {
    wire::Marker marker;
    wrong =
        command.Send(marker, CL_COMMAND_MAP_IMAGE, blocking != CL_FALSE || image->uses_host_ptr() ? NoData() : nullptr);
  } else {
    wire::ReadImage read{.image = image->id, .to = *offset, .size = size};
    CopyBox3(read.origin, box.origin);
    CopyBox3(read.region, box.region);
    auto arrival = NoData();
    if (image->uses_host_ptr())
      *arrival = {.from = *offset,
                  .to = mapped.pointer,
                  .box = {bytes[0], bytes[1], bytes[2]},
                  .row_pitch = mapped.row_pitch,
                  .slice_pitch = mapped.slice_pitch};
    wrong = command.Send(read, CL_COMMAND_MAP_IMAGE, std::move(arrival));
  }
  mapped.map = command.made();
  if (wrong == CL_SUCCESS && blocking != CL_FALSE) wrong = command.WaitForIt();
  if (wrong != CL_SUCCESS) {
    link.Free(mapped.staging);
    return Refuse(wrong, error);
  }
  *row_pitch = mapped.row_pitch;
  if (slice_pitch != nullptr) *slice_pitch = has_slices ? mapped.slice_pitch : 0;
  // In a one-dimensional array each row counts as a slice.
  if (image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY) *slice_pitch = mapped.row_pitch;
  Remember(*image, mapped);
  return Give<void*>(mapped.pointer, error);
}

cl_int EnqueueUnmapMemObject(cl_command_queue queue, cl_mem handle, void* pointer, cl_uint wait_count,
                             const cl_event* wait_list, cl_event* event) {
  Command command;
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  Memory* memory = As<Memory>(handle);
  if (memory == nullptr) return CL_INVALID_MEM_OBJECT;
  if (memory->context.get() != command.queue().context.get()) return CL_INVALID_CONTEXT;
  MappedRegion region;
  if (!Forget(*memory, pointer, region)) return CL_INVALID_VALUE;
  return memory->is_buffer() ? UnmapBuffer(command, *memory, region) : UnmapImage(command, *memory, region);
}

}  // namespace api
}  // namespace weir::opencl::icd
