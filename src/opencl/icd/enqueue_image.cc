// SPDX-License-Identifier: Apache-2.0
// Reads, writes, copies and fills of images. Messages contain tightly packed content; pitches apply only to the
// program's memory.
#include <cstring>

#include "opencl/icd/box_copy.h"
#include "opencl/icd/enqueue.h"
#include "opencl/icd/memory.h"

namespace weir::opencl::icd {
namespace {

void Copy3(std::uint64_t (&to)[3], const std::size_t (&from)[3]) {
  for (int i = 0; i < 3; ++i) to[i] = from[i];
}

/// Sets the pitches of a box in the program's memory by the rules of image functions.
bool HostPitches(const Memory& image, const std::size_t (&bytes)[3], std::size_t& row_pitch, std::size_t& slice_pitch) {
  const bool rows_are_slices = image.type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
  if (row_pitch == 0) row_pitch = bytes[0];
  if (row_pitch < bytes[0]) return false;
  const std::size_t least = rows_are_slices ? row_pitch : row_pitch * bytes[1];
  const bool flat = image.type == CL_MEM_OBJECT_IMAGE2D || image.type == CL_MEM_OBJECT_IMAGE1D ||
                    image.type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
  if (slice_pitch == 0)
    slice_pitch = least;
  else if (flat || slice_pitch < least)
    return false;
  if (rows_are_slices) row_pitch = slice_pitch;
  return true;
}

cl_int OpenImage(Command& command, cl_command_queue queue, cl_uint wait_count, const cl_event* wait_list,
                 cl_event* event, cl_mem handle, Memory*& image) {
  if (const cl_int error = command.Open(queue, wait_count, wait_list, event); error != CL_SUCCESS) return error;
  return CheckMemory(handle, *command.queue().context, false, image);
}

}  // namespace

namespace api {

cl_int EnqueueReadImage(cl_command_queue queue, cl_mem handle, cl_bool blocking, const std::size_t* origin,
                        const std::size_t* region, std::size_t row_pitch, std::size_t slice_pitch, void* to,
                        cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  Memory* image = nullptr;
  if (const cl_int error = OpenImage(command, queue, wait_count, wait_list, event, handle, image); error != CL_SUCCESS)
    return error;
  ImageBox box;
  if (const cl_int error = CheckImageBox(*image, origin, region, box); error != CL_SUCCESS) return error;
  std::size_t bytes[3];
  BytesOfBox(*image, box, bytes);
  if (to == nullptr || !HostPitches(*image, bytes, row_pitch, slice_pitch)) return CL_INVALID_VALUE;
  if ((image->flags & kHostMayNotRead) != 0) return CL_INVALID_OPERATION;
  const std::size_t size = bytes[0] * bytes[1] * bytes[2];
  const auto offset = command.link().AllocateStaging(size);
  if (!offset) return command.link().usable() ? CL_OUT_OF_RESOURCES : kGone;
  wire::ReadImage read{.image = image->id, .to = *offset, .size = size};
  Copy3(read.origin, box.origin);
  Copy3(read.region, box.region);
  auto arrival = std::make_unique<Arrival>(Arrival{.from = *offset,
                                                   .to = static_cast<std::byte*>(to),
                                                   .box = {bytes[0], bytes[1], bytes[2]},
                                                   .row_pitch = row_pitch,
                                                   .slice_pitch = slice_pitch,
                                                   .free_after = {*offset, size}});
  if (const cl_int error = command.Send(read, CL_COMMAND_READ_IMAGE, std::move(arrival)); error != CL_SUCCESS) {
    command.link().Free({*offset, size});
    return error;
  }
  return blocking != CL_FALSE ? command.WaitForIt() : CL_SUCCESS;
}

cl_int EnqueueWriteImage(cl_command_queue queue, cl_mem handle, cl_bool blocking, const std::size_t* origin,
                         const std::size_t* region, std::size_t row_pitch, std::size_t slice_pitch, const void* from,
                         cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  Memory* image = nullptr;
  if (const cl_int error = OpenImage(command, queue, wait_count, wait_list, event, handle, image); error != CL_SUCCESS)
    return error;
  ImageBox box;
  if (const cl_int error = CheckImageBox(*image, origin, region, box); error != CL_SUCCESS) return error;
  std::size_t bytes[3];
  BytesOfBox(*image, box, bytes);
  if (from == nullptr || !HostPitches(*image, bytes, row_pitch, slice_pitch)) return CL_INVALID_VALUE;
  if ((image->flags & kHostMayNotWrite) != 0) return CL_INVALID_OPERATION;
  if (command.FailsAtOnce(blocking)) return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  StagedContent content;
  if (!content.Make(command.link(), bytes[0] * bytes[1] * bytes[2]))
    return command.link().usable() ? CL_OUT_OF_RESOURCES : kGone;
  // CopyBox only reads from it.
  auto* const first = const_cast<std::byte*>(static_cast<const std::byte*>(from));
  CopyBox(Packed(content.into(), bytes), {first, row_pitch, slice_pitch}, bytes);
  wire::WriteImage write{.image = image->id, .content = content.blob(), .ticket = content.ticket()};
  Copy3(write.origin, box.origin);
  Copy3(write.region, box.region);
  if (const cl_int error = command.Send(write, CL_COMMAND_WRITE_IMAGE, command.ArrivalOfWrite(blocking));
      error != CL_SUCCESS)
    return error;
  return command.EndWrite(blocking);
}

cl_int EnqueueCopyImage(cl_command_queue queue, cl_mem from_handle, cl_mem to_handle, const std::size_t* from_origin,
                        const std::size_t* to_origin, const std::size_t* region, cl_uint wait_count,
                        const cl_event* wait_list, cl_event* event) {
  Command command;
  Memory *from = nullptr, *to = nullptr;
  if (const cl_int error = OpenImage(command, queue, wait_count, wait_list, event, from_handle, from);
      error != CL_SUCCESS)
    return error;
  if (const cl_int error = CheckMemory(to_handle, *command.queue().context, false, to); error != CL_SUCCESS)
    return error;
  if (from->format.image_channel_order != to->format.image_channel_order ||
      from->format.image_channel_data_type != to->format.image_channel_data_type)
    return CL_IMAGE_FORMAT_MISMATCH;
  ImageBox a, b;
  if (const cl_int error = CheckImageBox(*from, from_origin, region, a); error != CL_SUCCESS) return error;
  if (const cl_int error = CheckImageBox(*to, to_origin, region, b); error != CL_SUCCESS) return error;
  bool apart = from != to;
  for (int i = 0; i < 3; ++i)
    apart = apart || a.origin[i] + a.region[i] <= b.origin[i] || b.origin[i] + b.region[i] <= a.origin[i];
  if (!apart) return CL_MEM_COPY_OVERLAP;
  wire::CopyImage copy{.from = from->id, .to = to->id};
  Copy3(copy.from_origin, a.origin);
  Copy3(copy.to_origin, b.origin);
  Copy3(copy.region, a.region);
  return command.Send(copy, CL_COMMAND_COPY_IMAGE);
}

cl_int EnqueueFillImage(cl_command_queue queue, cl_mem handle, const void* colour, const std::size_t* origin,
                        const std::size_t* region, cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  Memory* image = nullptr;
  if (const cl_int error = OpenImage(command, queue, wait_count, wait_list, event, handle, image); error != CL_SUCCESS)
    return error;
  if (colour == nullptr) return CL_INVALID_VALUE;
  ImageBox box;
  if (const cl_int error = CheckImageBox(*image, origin, region, box); error != CL_SUCCESS) return error;
  wire::FillImage fill{.image = image->id};
  Copy3(fill.origin, box.origin);
  Copy3(fill.region, box.region);
  // The colour of a depth image is a single number.
  std::memcpy(fill.colour, colour, image->format.image_channel_order == CL_DEPTH ? sizeof(float) : sizeof fill.colour);
  return command.Send(fill, CL_COMMAND_FILL_IMAGE);
}

cl_int EnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem image_handle, cl_mem buffer_handle,
                                const std::size_t* origin, const std::size_t* region, std::size_t offset,
                                cl_uint wait_count, const cl_event* wait_list, cl_event* event) {
  Command command;
  Memory *image = nullptr, *buffer = nullptr;
  if (const cl_int error = OpenImage(command, queue, wait_count, wait_list, event, image_handle, image);
      error != CL_SUCCESS)
    return error;
  if (const cl_int error = CheckMemory(buffer_handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  ImageBox box;
  if (const cl_int error = CheckImageBox(*image, origin, region, box); error != CL_SUCCESS) return error;
  std::size_t bytes[3];
  BytesOfBox(*image, box, bytes);
  if (offset > buffer->size || bytes[0] * bytes[1] * bytes[2] > buffer->size - offset) return CL_INVALID_VALUE;
  wire::CopyImageToBuffer copy{.image = image->id, .buffer = buffer->id, .offset = offset};
  Copy3(copy.origin, box.origin);
  Copy3(copy.region, box.region);
  return command.Send(copy, CL_COMMAND_COPY_IMAGE_TO_BUFFER);
}

cl_int EnqueueCopyBufferToImage(cl_command_queue queue, cl_mem buffer_handle, cl_mem image_handle, std::size_t offset,
                                const std::size_t* origin, const std::size_t* region, cl_uint wait_count,
                                const cl_event* wait_list, cl_event* event) {
  Command command;
  Memory *image = nullptr, *buffer = nullptr;
  if (const cl_int error = OpenImage(command, queue, wait_count, wait_list, event, image_handle, image);
      error != CL_SUCCESS)
    return error;
  if (const cl_int error = CheckMemory(buffer_handle, *command.queue().context, true, buffer); error != CL_SUCCESS)
    return error;
  ImageBox box;
  if (const cl_int error = CheckImageBox(*image, origin, region, box); error != CL_SUCCESS) return error;
  std::size_t bytes[3];
  BytesOfBox(*image, box, bytes);
  if (offset > buffer->size || bytes[0] * bytes[1] * bytes[2] > buffer->size - offset) return CL_INVALID_VALUE;
  wire::CopyBufferToImage copy{.buffer = buffer->id, .image = image->id, .offset = offset};
  Copy3(copy.origin, box.origin);
  Copy3(copy.region, box.region);
  return command.Send(copy, CL_COMMAND_COPY_BUFFER_TO_IMAGE);
}

}  // namespace api
}  // namespace weir::opencl::icd
