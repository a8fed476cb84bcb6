// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/stored.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "opencl/executor/buffer_store.h"
#include "opencl/executor/objects.h"

namespace weir::opencl {
namespace {

constexpr cl_mem_flags kHostAccess = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY;

std::atomic<std::uint64_t> g_natives_made{0};

void CL_CALLBACK OnReleased(cl_mem, void* data) {
  const std::unique_ptr<Gone> gone(static_cast<Gone*>(data));
  gone->Tell();
}

}  // namespace

void Gone::Tell() const {
  if (quota) quota->Return(charged);
  if (ticket != 0 && replies) replies->Send(proto::cl::Freed{.ticket = ticket});
}

void ReleaseAndTell(const cl_icd_dispatch& cl, cl_mem native, Gone gone) {
  auto data = std::make_unique<Gone>(std::move(gone));
  if (native != nullptr && cl.clSetMemObjectDestructorCallback(native, OnReleased, data.get()) == CL_SUCCESS) {
    static_cast<void>(data.release());
  } else {
    data->Tell();
  }
  if (native != nullptr) cl.clReleaseMemObject(native);
}

cl_int ClearNew(Context& context, cl_mem buffer, std::uint64_t bytes) {
  if (!context.own_memory) return CL_SUCCESS;
  const cl_command_queue queue = context.Service();
  if (queue == nullptr) return CL_OUT_OF_RESOURCES;
  constexpr std::byte kZeros[16]{};
  const std::size_t pattern = bytes % sizeof kZeros == 0 ? sizeof kZeros : 1;
  const cl_int error = context.cl.clEnqueueFillBuffer(queue, buffer, kZeros, pattern, 0, bytes, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? context.cl.clFinish(queue) : error;
}

cl_int ClearNewImage(Context& context, cl_mem image, const cl_image_desc& desc) {
  if (!context.own_memory) return CL_SUCCESS;
  const cl_command_queue queue = context.Service();
  if (queue == nullptr) return CL_OUT_OF_RESOURCES;
  constexpr std::byte kZeros[16]{};
  constexpr std::size_t kOrigin[3] = {0, 0, 0};
  std::size_t region[3];
  Shape{.desc = desc}.WholeImage(region);
  const cl_int error = context.cl.clEnqueueFillImage(queue, image, kZeros, kOrigin, region, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? context.cl.clFinish(queue) : error;
}

void Shape::WholeImage(std::size_t (&region)[3]) const {
  const bool rows_are_slices = desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
  const bool slices_are_images = desc.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  region[0] = std::max<std::size_t>(desc.image_width, 1);
  region[1] = std::max<std::size_t>(rows_are_slices ? desc.image_array_size : desc.image_height, 1);
  region[2] = std::max<std::size_t>(slices_are_images ? desc.image_array_size : desc.image_depth, 1);
}

std::uint64_t Shape::PackedBytes() const {
  std::size_t region[3];
  WholeImage(region);
  return region[0] * region[1] * region[2] * pixel_bytes;
}

Stored::Stored(std::shared_ptr<BufferStore> of, std::shared_ptr<Context> in, const Shape& like,
               std::shared_ptr<Stored> part_of)
    : store(std::move(of)), context(std::move(in)), shape(like), parent(std::move(part_of)) {
  bytes = shape.size;
}

// Runs when the last reference was dropped, so that no other thread moves the object.
Stored::~Stored() {
  if (!parent) store->Forget(*this);
  ReleaseAndTell(context->cl, native, std::move(gone));
}

ByteRange Stored::InRoot(const ByteRange& range) const {
  if (!parent) return shape.image ? ByteRange{0, shape.size} : ByteRange::Within(shape.size, range.begin, range.size());
  if (shape.image) return parent->All();
  const ByteRange within = ByteRange::Within(shape.size, range.begin, range.size());
  return parent->InRoot({shape.origin + within.begin, shape.origin + within.end});
}

cl_int Stored::MakeNative() {
  const cl_icd_dispatch& cl = context->cl;
  // The executor reads and writes contents, whatever access flags the program has set.
  const cl_mem_flags flags = shape.flags & ~kHostAccess;
  cl_int error = CL_SUCCESS;
  if (shape.image) {
    cl_image_desc desc = shape.desc;
    if (parent) desc.mem_object = parent->native;
    native = cl.clCreateImage(context->native, flags, &shape.format, &desc, nullptr, &error);
  } else if (parent) {
    const cl_buffer_region region{shape.origin, shape.size};
    native = cl.clCreateSubBuffer(parent->native, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  } else {
    const std::byte* const from = content.empty() ? first : nullptr;
    native = cl.clCreateBuffer(context->native, flags | (from != nullptr ? CL_MEM_COPY_HOST_PTR : 0), shape.size,
                               const_cast<std::byte*>(from), &error);
    if (error == CL_SUCCESS && from != nullptr) content = dirty = {0, shape.size};
  }
  if (error == CL_SUCCESS && !parent && content.size() < shape.size) {
    error = shape.image ? ClearNewImage(*context, native, shape.desc) : ClearNew(*context, native, shape.size);
    if (error != CL_SUCCESS) cl.clReleaseMemObject(native);
  }
  if (error != CL_SUCCESS) {
    native = nullptr;
    return error;
  }
  if (!parent) first = nullptr;
  number = ++g_natives_made;
  return CL_SUCCESS;
}

bool Stored::MapHost() {
  if (host) return true;
  // The contents are not kept in the client's arena, whose ranges may be mapped: what the client writes there is not
  // yet part of the contents.
  void* at = ::mmap(nullptr, shape.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  ::madvise(at, shape.size, MADV_HUGEPAGE);
  host = platform::Mapping(at, shape.size);
  return true;
}

cl_int Stored::MakeHost() {
  if (!MapHost()) return CL_OUT_OF_HOST_MEMORY;
  if (const std::byte* const from = std::exchange(first, nullptr); from != nullptr && content.empty()) {
    std::memcpy(host.As<std::byte>(), from, shape.size);
    content = {0, shape.size};
  }
  return CL_SUCCESS;
}

cl_int Stored::CopyOut(const ByteRange& range) {
  if (!MapHost()) return CL_OUT_OF_HOST_MEMORY;
  const cl_command_queue queue = context->Service();
  if (queue == nullptr) return CL_OUT_OF_RESOURCES;
  if (!shape.image)
    return context->cl.clEnqueueReadBuffer(queue, native, CL_TRUE, range.begin, range.size(),
                                           host.As<std::byte>() + range.begin, 0, nullptr, nullptr);
  constexpr std::size_t kOrigin[3] = {0, 0, 0};
  std::size_t region[3];
  shape.WholeImage(region);
  return context->cl.clEnqueueReadImage(queue, native, CL_TRUE, kOrigin, region, 0, 0, host.As<std::byte>(), 0, nullptr,
                                        nullptr);
}

cl_int Stored::CopyIn(const ByteRange& range) {
  const cl_command_queue queue = context->Service();
  if (queue == nullptr) return CL_OUT_OF_RESOURCES;
  if (!shape.image)
    return context->cl.clEnqueueWriteBuffer(queue, native, CL_TRUE, range.begin, range.size(),
                                            host.As<std::byte>() + range.begin, 0, nullptr, nullptr);
  constexpr std::size_t kOrigin[3] = {0, 0, 0};
  std::size_t region[3];
  shape.WholeImage(region);
  return context->cl.clEnqueueWriteImage(queue, native, CL_TRUE, kOrigin, region, 0, 0, host.As<std::byte>(), 0,
                                         nullptr, nullptr);
}

}  // namespace weir::opencl
