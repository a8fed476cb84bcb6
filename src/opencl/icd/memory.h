// SPDX-License-Identifier: Apache-2.0
// A buffer, a sub-buffer or an image.
#pragma once

#include <functional>
#include <vector>

#include "opencl/icd/context.h"
#include "opencl/icd/event.h"
#include "opencl/icd/link.h"

namespace weir::opencl::icd {

/// A mapped region to which the program has a pointer.
struct MappedRegion {
  std::byte* pointer = nullptr;
  Ref<Event> map{};  // of the map, if the client did not execute it itself
  cl_map_flags flags = 0;
  std::size_t offset = 0, size = 0;  // buffers only
  // Images only: the box, and its packed copy in the arena.
  std::size_t origin[3] = {}, region[3] = {};
  std::size_t row_pitch = 0, slice_pitch = 0;  // of the memory at `pointer`
  Range staging{};
  [[nodiscard]] bool for_writing() const { return (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0; }
};

struct Memory : Object {
  static constexpr Kind kKind = Kind::kMemory;
  explicit Memory(Context& of) : Object(kKind, of.link), context(&of) {}
  static void End(Memory* memory);

  [[nodiscard]] bool is_buffer() const { return type == CL_MEM_OBJECT_BUFFER; }
  [[nodiscard]] bool uses_host_ptr() const { return (flags & CL_MEM_USE_HOST_PTR) != 0; }
  /// The first byte in the arena of a buffer, or of the buffer under an image.
  [[nodiscard]] std::byte* bytes() const { return link->arena() + at; }

  Ref<Context> context;
  cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;
  cl_mem_flags flags = 0;
  std::size_t size = 0;
  void* host_ptr = nullptr;
  std::vector<cl_mem_properties> given;
  Range range{};         // its own range in the arena; empty for a sub-buffer or an image
  std::uint64_t at = 0;  // offset in the arena
  Ref<Memory> parent;    // of a sub-buffer, or of an image over a buffer
  std::size_t origin = 0;
  std::vector<MappedRegion> maps;                           // guarded by the state lock
  std::vector<std::function<void()>> destructor_callbacks;  // guarded by the state lock

  // Images.
  cl_image_format format{};
  cl_image_desc desc{};
  std::size_t element_bytes = 0;
  std::size_t host_row_pitch = 0, host_slice_pitch = 0;  // of host_ptr
};

/// Finds a buffer, or without `buffer` an image, of this context. Returns CL_SUCCESS or the error.
cl_int CheckMemory(const void* handle, const Context& context, bool buffer, Memory*& memory);
/// Flags that forbid host accesses.
constexpr cl_mem_flags kHostMayNotRead = CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS;
constexpr cl_mem_flags kHostMayNotWrite = CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

/// Checks the flags of a new object. Returns CL_SUCCESS or the error.
cl_int CheckMemoryFlags(cl_mem_flags flags, const void* host_ptr, bool image);
/// The flags that are sent to the executor.
constexpr cl_mem_flags WireFlags(cl_mem_flags flags) {
  return flags & ~cl_mem_flags{CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR};
}

/// A box of an image in elements. The layers of an array are the next dimension.
struct ImageBox {
  std::size_t origin[3] = {}, region[3] = {};
};
/// CL_SUCCESS, or the error if the box exceeds the image.
cl_int CheckImageBox(const Memory& image, const std::size_t* origin, const std::size_t* region, ImageBox& box);
/// The box in bytes of a row, rows, and slices.
inline void BytesOfBox(const Memory& image, const ImageBox& box, std::size_t (&bytes)[3]) {
  bytes[0] = box.region[0] * image.element_bytes;
  bytes[1] = box.region[1];
  bytes[2] = box.region[2];
}

/// Space for content that is sent with a message: in the message, or in the arena until the executor frees it.
class StagedContent {
 public:
  /// False: no room in the arena.
  bool Make(Link& link, std::size_t bytes);
  /// The destination of the content.
  [[nodiscard]] std::byte* into() { return into_; }
  /// Uses content of the program's memory, without a copy if it fits into the message. `of_more`: one of many parts in
  /// a row, whose copy bypasses the caches.
  bool Of(Link& link, const void* from, std::size_t bytes, bool of_more = false);
  [[nodiscard]] const wire::Blob& blob() const { return blob_; }
  [[nodiscard]] std::uint64_t ticket() const { return ticket_; }

 private:
  std::vector<std::byte> small_;
  std::byte* into_ = nullptr;
  wire::Blob blob_;
  std::uint64_t ticket_ = 0;
};

}  // namespace weir::opencl::icd
