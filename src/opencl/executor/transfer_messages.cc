// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/transfer_messages.h"

#include <cstring>

#include "opencl/executor/transfer_check.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

ByteRange Part(const Memory& memory, std::uint64_t begin, std::uint64_t size) {
  return ByteRange::Within(memory.size, begin, size);
}

/// CL_INVALID_VALUE unless the transfer lies within its object. Also checks the object's kind, because not every driver
/// distinguishes buffers from images.
cl_int Within(cl_int found, const Memory* buffer, std::uint64_t offset, std::uint64_t size) {
  if (found != CL_SUCCESS) return found;
  if (buffer->image) return CL_INVALID_MEM_OBJECT;
  return RangeFits(buffer->size, offset, size) ? CL_SUCCESS : CL_INVALID_VALUE;
}
cl_int Within(cl_int found, const Memory* buffer, const BufferBox& box) {
  if (found != CL_SUCCESS) return found;
  if (buffer->image) return CL_INVALID_MEM_OBJECT;
  return BoxFits(buffer->size, box) ? CL_SUCCESS : CL_INVALID_VALUE;
}
cl_int Within(cl_int found, const Memory* image, const std::uint64_t (&origin)[3], const std::uint64_t (&region)[3]) {
  if (found != CL_SUCCESS) return found;
  if (!image->image) return CL_INVALID_MEM_OBJECT;
  return PixelsFit(image->extent, origin, region) ? CL_SUCCESS : CL_INVALID_VALUE;
}

}  // namespace

void TransferMessages::WillArrive(const wire::Enqueue& enqueue, cl_event read, const wire::Arrived& what) {
  Queue* queue = nullptr;
  if (client_.arrivals == nullptr || objects_.Find(enqueue.queue, queue) != CL_SUCCESS) return;
  client_.arrivals->Expect(queue->in_order ? queue->native : nullptr, read, what);
}

std::byte* TransferMessages::InHostMemory(const wire::Enqueue& enqueue, const Memory& memory, std::uint64_t offset,
                                          std::uint64_t size, bool writes) {
  std::byte* const host = memory_.InHostMemory(enqueue, memory, offset, size, writes);
  if (host != nullptr) parts_.AnalyseAhead();
  return host;
}

// -- Buffers ---------------------------------------------------------------------------------------------------------

void TransferMessages::Do(const wire::WriteBuffer& m) {
  Memory* buffer = nullptr;
  const std::uint64_t size = m.content.length();
  cl_int found = memory_.Writes(m.buffer, buffer, [&](const Memory& to) { return Part(to, m.offset, size); });
  found = Within(found, buffer, m.offset, size);
  std::byte* const host =
      found == CL_SUCCESS ? InHostMemory(m.enqueue, *buffer, m.offset, size, /*writes=*/true) : nullptr;
  commands_.Upload(
      m.enqueue, m.content, m.ticket, size, host == nullptr ? size : 0, "clEnqueueWriteBuffer",
      [&](cl_command_queue queue, const void* bytes, cl_uint count, const cl_event* waits, cl_event* event) {
        if (found != CL_SUCCESS) return found;
        if (host != nullptr) {
          std::memcpy(host, bytes, size);
          return cl_.clEnqueueMarkerWithWaitList(queue, 0, nullptr, event);
        }
        return cl_.clEnqueueWriteBuffer(queue, buffer->native, CL_FALSE, m.offset, size, bytes, count, waits, event);
      });
}

void TransferMessages::Do(const wire::ReadBuffer& m) {
  Memory* buffer = nullptr;
  cl_int found = memory_.Reads(m.buffer, buffer);
  found = Within(found, buffer, m.offset, m.size);
  if (found == CL_SUCCESS && !client_.InArena(m.to, m.size)) found = CL_INVALID_VALUE;
  const std::byte* const host =
      found == CL_SUCCESS ? InHostMemory(m.enqueue, *buffer, m.offset, m.size, /*writes=*/false) : nullptr;
  wire::Arrived arrived{.offset = m.to, .size = m.size};
  const bool in_place = found == CL_SUCCESS && InPlace(m, *buffer, arrived);
  commands_.Enqueue(m.enqueue, host == nullptr && !in_place ? m.size : 0, "clEnqueueReadBuffer",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      std::byte* const to = client_.At(m.to);
                      if (host != nullptr) std::memcpy(to, host, m.size);
                      const cl_int error = host != nullptr || in_place
                                               ? cl_.clEnqueueMarkerWithWaitList(queue, count, waits, event)
                                               : cl_.clEnqueueReadBuffer(queue, buffer->native, CL_FALSE, m.offset,
                                                                         m.size, to, count, waits, event);
                      if (error == CL_SUCCESS) WillArrive(m.enqueue, *event, arrived);
                      return error;
                    });
}

/// Whether the read needs no copy here: the contents that a remote client waits for are sent directly from the buffer's
/// memory. A later command may begin before they are sent, but it can only come from another thread, whose commands
/// could come between the parts of a long read as well.
bool TransferMessages::InPlace(const wire::ReadBuffer& m, const Memory& buffer, wire::Arrived& arrived) {
  Queue* queue = nullptr;
  if (m.waited == 0 || buffer.placed == nullptr || client_.arrivals == nullptr) return false;
  // The driver reports these errors.
  if (m.size == 0 || m.offset > buffer.size || m.size > buffer.size - m.offset) return false;
  if (objects_.Find(m.enqueue.queue, queue) != CL_SUCCESS || !queue->in_order) return false;
  arrived.in_buffers = 1;
  arrived.from = static_cast<std::uint64_t>(buffer.placed - client_.buffers.As<std::byte>()) + m.offset;
  return true;
}

void TransferMessages::Do(const wire::CopyBuffer& m) {
  Memory *from = nullptr, *to = nullptr;
  cl_int found = memory_.Reads(m.from, from);
  found = Within(found, from, m.from_offset, m.size);
  if (found == CL_SUCCESS)
    found = memory_.Writes(m.to, to, [&](const Memory& there) { return Part(there, m.to_offset, m.size); });
  found = Within(found, to, m.to_offset, m.size);
  commands_.Enqueue(m.enqueue, m.size, "clEnqueueCopyBuffer",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueCopyBuffer(queue, from->native, to->native, m.from_offset, m.to_offset,
                                                     m.size, count, waits, event);
                    });
}

void TransferMessages::Do(const wire::FillBuffer& m) {
  Memory* buffer = nullptr;
  cl_int found = memory_.Writes(m.buffer, buffer, [&](const Memory& to) { return Part(to, m.offset, m.size); });
  found = Within(found, buffer, m.offset, m.size);
  if (found == CL_SUCCESS && !FillFits(buffer->size, m.pattern.size(), m.offset, m.size)) found = CL_INVALID_VALUE;
  commands_.Enqueue(m.enqueue, m.size, "clEnqueueFillBuffer",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueFillBuffer(queue, buffer->native, m.pattern.data(), m.pattern.size(),
                                                     m.offset, m.size, count, waits, event);
                    });
}

void TransferMessages::Do(const wire::WriteBufferRect& m) {
  Memory* buffer = nullptr;
  cl_int found = memory_.Writes(m.buffer, buffer, [&](const Memory& to) {
    return HullOfBox(to.size, m.origin, m.region, m.row_pitch, m.slice_pitch);
  });
  found = Within(found, buffer, {m.origin, m.region, m.row_pitch, m.slice_pitch});
  constexpr std::size_t kOrigin[3] = {0, 0, 0};
  commands_.Upload(
      m.enqueue, m.content, m.ticket, Product(m.region), Product(m.region), "clEnqueueWriteBufferRect",
      [&](cl_command_queue queue, const void* bytes, cl_uint count, const cl_event* waits, cl_event* event) {
        if (found != CL_SUCCESS) return found;
        return cl_.clEnqueueWriteBufferRect(queue, buffer->native, CL_FALSE, Sizes(m.origin), kOrigin, Sizes(m.region),
                                            m.row_pitch, m.slice_pitch, m.region[0], m.region[0] * m.region[1], bytes,
                                            count, waits, event);
      });
}

void TransferMessages::Do(const wire::ReadBufferRect& m) {
  Memory* buffer = nullptr;
  cl_int found = memory_.Reads(m.buffer, buffer);
  found = Within(found, buffer, {m.origin, m.region, m.row_pitch, m.slice_pitch});
  const std::uint64_t size = Product(m.region);
  if (found == CL_SUCCESS && !client_.InArena(m.to, size)) found = CL_INVALID_VALUE;
  constexpr std::size_t kOrigin[3] = {0, 0, 0};
  commands_.Enqueue(m.enqueue, size, "clEnqueueReadBufferRect",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      const cl_int error = cl_.clEnqueueReadBufferRect(
                          queue, buffer->native, CL_FALSE, Sizes(m.origin), kOrigin, Sizes(m.region), m.row_pitch,
                          m.slice_pitch, m.region[0], m.region[0] * m.region[1], client_.At(m.to), count, waits, event);
                      if (error == CL_SUCCESS) WillArrive(m.enqueue, *event, {.offset = m.to, .size = size});
                      return error;
                    });
}

void TransferMessages::Do(const wire::CopyBufferRect& m) {
  Memory *from = nullptr, *to = nullptr;
  cl_int found = memory_.Reads(m.from, from);
  found = Within(found, from, {m.from_origin, m.region, m.from_row_pitch, m.from_slice_pitch});
  if (found == CL_SUCCESS)
    found = memory_.Writes(m.to, to, [&](const Memory& there) {
      return HullOfBox(there.size, m.to_origin, m.region, m.to_row_pitch, m.to_slice_pitch);
    });
  found = Within(found, to, {m.to_origin, m.region, m.to_row_pitch, m.to_slice_pitch});
  commands_.Enqueue(m.enqueue, Product(m.region), "clEnqueueCopyBufferRect",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueCopyBufferRect(
                          queue, from->native, to->native, Sizes(m.from_origin), Sizes(m.to_origin), Sizes(m.region),
                          m.from_row_pitch, m.from_slice_pitch, m.to_row_pitch, m.to_slice_pitch, count, waits, event);
                    });
}

// -- Images ----------------------------------------------------------------------------------------------------------

namespace {

ByteRange Whole(const Memory& memory) { return {0, std::max<std::uint64_t>(memory.size, 1)}; }

/// The bytes of one pixel of an image; 0: the driver does not report them.
std::uint64_t PixelBytes(const cl_icd_dispatch& cl, const Memory& image) {
  if (image.stored) return image.stored->shape.pixel_bytes;
  std::size_t bytes = 0;
  if (cl.clGetImageInfo(image.native, CL_IMAGE_ELEMENT_SIZE, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) return 0;
  return bytes;
}

/// The bytes of a box of an image, tightly packed.
std::uint64_t PackedBytes(const cl_icd_dispatch& cl, const Memory& image, const std::uint64_t (&region)[3]) {
  const unsigned __int128 bytes = static_cast<unsigned __int128>(Product(region)) * PixelBytes(cl, image);
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  return bytes > kMax ? kMax : static_cast<std::uint64_t>(bytes);
}

}  // namespace

void TransferMessages::Do(const wire::WriteImage& m) {
  Memory* image = nullptr;
  cl_int found = memory_.Writes(m.image, image, Whole);
  found = Within(found, image, m.origin, m.region);
  const std::uint64_t size = found == CL_SUCCESS ? PackedBytes(cl_, *image, m.region) : 0;
  commands_.Upload(
      m.enqueue, m.content, m.ticket, size, size, "clEnqueueWriteImage",
      [&](cl_command_queue queue, const void* bytes, cl_uint count, const cl_event* waits, cl_event* event) {
        if (found != CL_SUCCESS) return found;
        return cl_.clEnqueueWriteImage(queue, image->native, CL_FALSE, Sizes(m.origin), Sizes(m.region), 0, 0, bytes,
                                       count, waits, event);
      });
}

void TransferMessages::Do(const wire::ReadImage& m) {
  Memory* image = nullptr;
  cl_int found = memory_.Reads(m.image, image);
  found = Within(found, image, m.origin, m.region);
  if (found == CL_SUCCESS && (!client_.InArena(m.to, m.size) || PackedBytes(cl_, *image, m.region) > m.size))
    found = CL_INVALID_VALUE;
  commands_.Enqueue(m.enqueue, m.size, "clEnqueueReadImage",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      const cl_int error =
                          cl_.clEnqueueReadImage(queue, image->native, CL_FALSE, Sizes(m.origin), Sizes(m.region), 0, 0,
                                                 client_.At(m.to), count, waits, event);
                      if (error == CL_SUCCESS)
                        WillArrive(m.enqueue, *event, {.offset = m.to, .size = PackedBytes(cl_, *image, m.region)});
                      return error;
                    });
}

void TransferMessages::Do(const wire::CopyImage& m) {
  Memory *from = nullptr, *to = nullptr;
  cl_int found = memory_.Reads(m.from, from);
  found = Within(found, from, m.from_origin, m.region);
  if (found == CL_SUCCESS) found = memory_.Writes(m.to, to, Whole);
  found = Within(found, to, m.to_origin, m.region);
  if (found == CL_SUCCESS && PixelBytes(cl_, *from) != PixelBytes(cl_, *to)) found = CL_IMAGE_FORMAT_MISMATCH;
  commands_.Enqueue(m.enqueue, Product(m.region), "clEnqueueCopyImage",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueCopyImage(queue, from->native, to->native, Sizes(m.from_origin),
                                                    Sizes(m.to_origin), Sizes(m.region), count, waits, event);
                    });
}

void TransferMessages::Do(const wire::FillImage& m) {
  Memory* image = nullptr;
  cl_int found = memory_.Writes(m.image, image, Whole);
  found = Within(found, image, m.origin, m.region);
  commands_.Enqueue(m.enqueue, Product(m.region), "clEnqueueFillImage",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueFillImage(queue, image->native, m.colour, Sizes(m.origin), Sizes(m.region),
                                                    count, waits, event);
                    });
}

void TransferMessages::Do(const wire::CopyImageToBuffer& m) {
  Memory *image = nullptr, *buffer = nullptr;
  cl_int found = memory_.Reads(m.image, image);
  found = Within(found, image, m.origin, m.region);
  const std::uint64_t size = found == CL_SUCCESS ? PackedBytes(cl_, *image, m.region) : 0;
  if (found == CL_SUCCESS)
    found = memory_.Writes(m.buffer, buffer, [&](const Memory& to) { return Part(to, m.offset, size); });
  found = Within(found, buffer, m.offset, size);
  commands_.Enqueue(m.enqueue, Product(m.region), "clEnqueueCopyImageToBuffer",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueCopyImageToBuffer(queue, image->native, buffer->native, Sizes(m.origin),
                                                            Sizes(m.region), m.offset, count, waits, event);
                    });
}

void TransferMessages::Do(const wire::CopyBufferToImage& m) {
  Memory *image = nullptr, *buffer = nullptr;
  cl_int found = memory_.Writes(m.image, image, Whole);
  found = Within(found, image, m.origin, m.region);
  const std::uint64_t size = found == CL_SUCCESS ? PackedBytes(cl_, *image, m.region) : 0;
  if (found == CL_SUCCESS) found = memory_.Reads(m.buffer, buffer);
  found = Within(found, buffer, m.offset, size);
  commands_.Enqueue(m.enqueue, Product(m.region), "clEnqueueCopyBufferToImage",
                    [&](cl_command_queue queue, cl_uint count, const cl_event* waits, cl_event* event) {
                      if (found != CL_SUCCESS) return found;
                      return cl_.clEnqueueCopyBufferToImage(queue, buffer->native, image->native, m.offset,
                                                            Sizes(m.origin), Sizes(m.region), count, waits, event);
                    });
}

}  // namespace weir::opencl
