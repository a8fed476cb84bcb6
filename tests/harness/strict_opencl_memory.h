// SPDX-License-Identifier: Apache-2.0
// Buffers and images of strict_opencl.h's driver.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "opencl/channel/cl.h"
#include "tests/harness/strict_opencl_driver.h"
#include "tests/harness/strict_opencl_objects.h"

namespace weir::testing::strict_cl {

inline constexpr std::size_t kObjectBytesMax = 1 << 20;

inline bool Holds(const Memory& memory, std::size_t at, std::size_t size) {
  return size > 0 && at <= memory.size && size <= memory.size - at;
}

inline void AddBufferCalls(cl_icd_dispatch& table) {
  table.clCreateBuffer = [](cl_context context, cl_mem_flags flags, std::size_t size, void* host,
                            cl_int* error) -> cl_mem {
    auto made = std::make_shared<Memory>();
    made->context = Share<Context>(context);
    const bool shows = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
    if (size == 0 || size > kObjectBytesMax) return No<cl_mem>(error, CL_INVALID_BUFFER_SIZE);
    if (shows != (host != nullptr)) return No<cl_mem>(error, CL_INVALID_HOST_PTR);
    if (Refuses()) return No<cl_mem>(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    made->size = size;
    if (host != nullptr) Touch(host, size);
    if ((flags & CL_MEM_USE_HOST_PTR) != 0) {
      made->bytes = static_cast<std::byte*>(host);
    } else {
      made->own.resize(size);
      made->bytes = made->own.data();
      if (host != nullptr) std::memcpy(made->bytes, host, size);
    }
    return Yes<cl_mem>(error, std::move(made));
  };
  table.clCreateSubBuffer = [](cl_mem parent, cl_mem_flags, cl_buffer_create_type, const void* info,
                               cl_int* error) -> cl_mem {
    auto made = std::make_shared<Memory>();
    made->parent = Share<Memory>(parent);
    const auto& region = *static_cast<const cl_buffer_region*>(info);
    const Memory& whole = *made->parent;
    if (whole.parent || whole.image) return No<cl_mem>(error, CL_INVALID_MEM_OBJECT);
    if (region.size == 0 || region.origin > whole.size || region.size > whole.size - region.origin || Refuses())
      return No<cl_mem>(error, CL_INVALID_VALUE);
    made->context = whole.context;
    made->size = region.size;
    made->bytes = whole.bytes + region.origin;
    return Yes<cl_mem>(error, std::move(made));
  };
  table.clReleaseMemObject = Release<Memory, cl_mem>;
  table.clSetMemObjectDestructorCallback = [](cl_mem memory, Memory::Callback call, void* data) -> cl_int {
    Of<Memory>(memory).callbacks.emplace_back(call, data);
    return CL_SUCCESS;
  };
}

inline void AddBufferCommands(cl_icd_dispatch& table) {
  table.clEnqueueWriteBuffer = [](cl_command_queue queue, cl_mem to, cl_bool, std::size_t at, std::size_t size,
                                  const void* from, cl_uint count, const cl_event* waits, cl_event* event) {
    auto memory = Share<Memory>(to);
    if (!Holds(*memory, at, size) || from == nullptr) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [memory, at, size, from] { std::memmove(memory->bytes + at, from, size); });
  };
  table.clEnqueueReadBuffer = [](cl_command_queue queue, cl_mem from, cl_bool, std::size_t at, std::size_t size,
                                 void* to, cl_uint count, const cl_event* waits, cl_event* event) {
    auto memory = Share<Memory>(from);
    if (!Holds(*memory, at, size) || to == nullptr) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event, [memory, at, size, to] { std::memmove(to, memory->bytes + at, size); });
  };
  table.clEnqueueCopyBuffer = [](cl_command_queue queue, cl_mem from, cl_mem to, std::size_t from_at, std::size_t to_at,
                                 std::size_t size, cl_uint count, const cl_event* waits, cl_event* event) {
    auto source = Share<Memory>(from), target = Share<Memory>(to);
    if (!Holds(*source, from_at, size) || !Holds(*target, to_at, size)) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event, [source, target, from_at, to_at, size] {
      std::memmove(target->bytes + to_at, source->bytes + from_at, size);
    });
  };
  table.clEnqueueFillBuffer = [](cl_command_queue queue, cl_mem to, const void* pattern, std::size_t bytes,
                                 std::size_t at, std::size_t size, cl_uint count, const cl_event* waits,
                                 cl_event* event) {
    auto memory = Share<Memory>(to);
    if (bytes == 0 || bytes > 128 || (bytes & (bytes - 1)) != 0 || pattern == nullptr) return CL_INVALID_VALUE;
    if (!Holds(*memory, at, size) || at % bytes != 0 || size % bytes != 0) return CL_INVALID_VALUE;
    const auto* const first = static_cast<const std::byte*>(pattern);
    return Enqueue(queue, count, waits, event, [memory, at, size, copy = std::vector(first, first + bytes)] {
      for (std::size_t i = 0; i < size; ++i) memory->bytes[at + i] = copy[i % copy.size()];
    });
  };
}

inline void AddBoxCommands(cl_icd_dispatch& table) {
  table.clEnqueueWriteBufferRect = [](cl_command_queue queue, cl_mem to, cl_bool, const std::size_t* origin,
                                      const std::size_t* host_origin, const std::size_t* region, std::size_t row,
                                      std::size_t slice, std::size_t host_row, std::size_t host_slice, const void* from,
                                      cl_uint count, const cl_event* waits, cl_event* event) {
    auto memory = Share<Memory>(to);
    const Box there = Box::Of(origin, region, row, slice), here = Box::Of(host_origin, region, host_row, host_slice);
    if (!there.sound() || !here.sound() || !there.within(memory->size)) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event, [memory, there, here, from] {
      CopyBox(memory->bytes, there, static_cast<const std::byte*>(from), here);
    });
  };
  table.clEnqueueReadBufferRect = [](cl_command_queue queue, cl_mem from, cl_bool, const std::size_t* origin,
                                     const std::size_t* host_origin, const std::size_t* region, std::size_t row,
                                     std::size_t slice, std::size_t host_row, std::size_t host_slice, void* to,
                                     cl_uint count, const cl_event* waits, cl_event* event) {
    auto memory = Share<Memory>(from);
    const Box here = Box::Of(origin, region, row, slice), there = Box::Of(host_origin, region, host_row, host_slice);
    if (!there.sound() || !here.sound() || !here.within(memory->size)) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [memory, there, here, to] { CopyBox(static_cast<std::byte*>(to), there, memory->bytes, here); });
  };
  table.clEnqueueCopyBufferRect = [](cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_origin,
                                     const std::size_t* to_origin, const std::size_t* region, std::size_t from_row,
                                     std::size_t from_slice, std::size_t to_row, std::size_t to_slice, cl_uint count,
                                     const cl_event* waits, cl_event* event) {
    auto source = Share<Memory>(from), target = Share<Memory>(to);
    const Box here = Box::Of(from_origin, region, from_row, from_slice);
    const Box there = Box::Of(to_origin, region, to_row, to_slice);
    if (!here.sound() || !there.sound() || !here.within(source->size) || !there.within(target->size))
      return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [source, target, here, there] { CopyBox(target->bytes, there, source->bytes, here); });
  };
}

inline void AddImageCalls(cl_icd_dispatch& table) {
  // A pixel has 1 to 16 bytes, as the format's numbers have it.
  table.clCreateImage = [](cl_context context, cl_mem_flags flags, const cl_image_format* format,
                           const cl_image_desc* desc, void* host, cl_int* error) -> cl_mem {
    auto made = std::make_shared<Memory>();
    made->context = Share<Context>(context);
    made->image = true;
    made->pixel = 1 + ((format->image_channel_order ^ format->image_channel_data_type) & 15);
    const cl_mem_object_type type = desc->image_type;
    const bool array = type == CL_MEM_OBJECT_IMAGE1D_ARRAY || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    const bool plane = type == CL_MEM_OBJECT_IMAGE2D || type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    if (type <= CL_MEM_OBJECT_BUFFER || type > CL_MEM_OBJECT_IMAGE1D_BUFFER)
      return No<cl_mem>(error, CL_INVALID_IMAGE_DESCRIPTOR);
    std::size_t(&extent)[3] = made->extent;
    extent[0] = desc->image_width;
    extent[1] = plane || type == CL_MEM_OBJECT_IMAGE3D ? desc->image_height : 1;
    extent[2] = type == CL_MEM_OBJECT_IMAGE3D ? desc->image_depth : 1;
    if (array) extent[plane ? 2 : 1] = desc->image_array_size;
    for (const std::size_t n : extent)
      if (n == 0 || n > 64) return No<cl_mem>(error, CL_INVALID_IMAGE_SIZE);
    made->size = extent[0] * extent[1] * extent[2] * made->pixel;
    if (desc->mem_object != nullptr) {
      made->parent = Share<Memory>(desc->mem_object);
      if (made->parent->image || made->parent->size < made->size) return No<cl_mem>(error, CL_INVALID_IMAGE_DESCRIPTOR);
    } else if (type == CL_MEM_OBJECT_IMAGE1D_BUFFER) {
      return No<cl_mem>(error, CL_INVALID_IMAGE_DESCRIPTOR);
    }
    const bool shows = (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0;
    if (shows != (host != nullptr)) return No<cl_mem>(error, CL_INVALID_HOST_PTR);
    if (Refuses()) return No<cl_mem>(error, CL_MEM_OBJECT_ALLOCATION_FAILURE);
    if (made->parent) {
      made->bytes = made->parent->bytes;
    } else {
      made->own.resize(made->size);
      made->bytes = made->own.data();
    }
    if (host != nullptr) std::memcpy(made->bytes, host, made->size);
    return Yes<cl_mem>(error, std::move(made));
  };
}

inline void AddImageCommands(cl_icd_dispatch& table) {
  table.clEnqueueWriteImage = [](cl_command_queue queue, cl_mem to, cl_bool, const std::size_t* origin,
                                 const std::size_t* region, std::size_t, std::size_t, const void* from, cl_uint count,
                                 const cl_event* waits, cl_event* event) {
    auto image = Share<Memory>(to);
    Box part{};
    if (!image->image || !PartOf(*image, origin, region, part)) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event, [image, part, from] {
      CopyBox(image->bytes, part, static_cast<const std::byte*>(from), Packed(part));
    });
  };
  table.clEnqueueReadImage = [](cl_command_queue queue, cl_mem from, cl_bool, const std::size_t* origin,
                                const std::size_t* region, std::size_t, std::size_t, void* to, cl_uint count,
                                const cl_event* waits, cl_event* event) {
    auto image = Share<Memory>(from);
    Box part{};
    if (!image->image || !PartOf(*image, origin, region, part)) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [image, part, to] { CopyBox(static_cast<std::byte*>(to), Packed(part), image->bytes, part); });
  };
  table.clEnqueueFillImage = [](cl_command_queue queue, cl_mem to, const void* colour, const std::size_t* origin,
                                const std::size_t* region, cl_uint count, const cl_event* waits, cl_event* event) {
    auto image = Share<Memory>(to);
    Box part{};
    Touch(colour, 16);
    if (!image->image || !PartOf(*image, origin, region, part)) return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event, [] {});
  };
}

inline void AddImageCopies(cl_icd_dispatch& table) {
  table.clEnqueueCopyImage = [](cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* from_origin,
                                const std::size_t* to_origin, const std::size_t* region, cl_uint count,
                                const cl_event* waits, cl_event* event) {
    auto source = Share<Memory>(from), target = Share<Memory>(to);
    Box here{}, there{};
    if (!source->image || !target->image || source->pixel != target->pixel ||
        !PartOf(*source, from_origin, region, here) || !PartOf(*target, to_origin, region, there))
      return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [source, target, here, there] { CopyBox(target->bytes, there, source->bytes, here); });
  };
  table.clEnqueueCopyImageToBuffer = [](cl_command_queue queue, cl_mem from, cl_mem to, const std::size_t* origin,
                                        const std::size_t* region, std::size_t at, cl_uint count, const cl_event* waits,
                                        cl_event* event) {
    auto image = Share<Memory>(from), buffer = Share<Memory>(to);
    Box part{};
    if (!image->image || !PartOf(*image, origin, region, part) || !Holds(*buffer, at, Packed(part).slice * region[2]))
      return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [image, buffer, part, at] { CopyBox(buffer->bytes + at, Packed(part), image->bytes, part); });
  };
  table.clEnqueueCopyBufferToImage = [](cl_command_queue queue, cl_mem from, cl_mem to, std::size_t at,
                                        const std::size_t* origin, const std::size_t* region, cl_uint count,
                                        const cl_event* waits, cl_event* event) {
    auto buffer = Share<Memory>(from), image = Share<Memory>(to);
    Box part{};
    if (!image->image || !PartOf(*image, origin, region, part) || !Holds(*buffer, at, Packed(part).slice * region[2]))
      return CL_INVALID_VALUE;
    return Enqueue(queue, count, waits, event,
                   [image, buffer, part, at] { CopyBox(image->bytes, part, buffer->bytes + at, Packed(part)); });
  };
}

}  // namespace weir::testing::strict_cl
