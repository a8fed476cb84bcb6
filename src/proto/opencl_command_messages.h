// SPDX-License-Identifier: Apache-2.0
// Commands that an OpenCL client gives to its queues. None has an answer. Their numbers are 20 to 49. Rules:
// opencl_messages.h
//
// A command is declared here, and nowhere else: its number, its fields, the object that it writes to, and its place in
// one of the lists at the end, from which the executor's handlers are declared.
#pragma once

#include <tuple>

#include "proto/opencl_codec.h"

namespace weir::proto::cl {

/// Fields of every command. `event`: the id of the event that it creates, or 0.
struct Enqueue {
  std::uint32_t queue = 0, event = 0;
  IdList waits{};
  static void Fields(auto& m, auto& f) { f(m.queue, m.event, m.waits); }
};

/// Each command but a launch says with Written() to which object it writes, because a migration must not lose it. A
/// launch writes to its kernel's arguments.
inline constexpr std::uint32_t kWritesNothing = 0;

struct NdRange {
  static constexpr std::uint16_t kOp = 20;
  Enqueue enqueue{};
  std::uint32_t kernel = 0;
  std::uint8_t dimensions = 0;
  std::uint8_t has_local = 0;
  std::uint64_t offset[3] = {}, global[3] = {}, local[3] = {};
  static void Fields(auto& m, auto& f) {
    f(m.enqueue, m.kernel, m.dimensions, m.has_local, m.offset, m.global, m.local);
  }
};

/// `content` may be reused after its Freed.
struct WriteBuffer {
  static constexpr std::uint16_t kOp = 21;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0;
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.content, m.ticket); }
  [[nodiscard]] std::uint32_t Written() const { return buffer; }
};

/// On completion the bytes are at `to` in the arena.
struct ReadBuffer {
  static constexpr std::uint16_t kOp = 22;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0, size = 0, to = 0;
  std::uint8_t waited = 0;  // 1: the caller waits, and meanwhile enqueues nothing that could change the bytes
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.size, m.to, m.waited); }
  [[nodiscard]] std::uint32_t Written() const { return kWritesNothing; }
};

struct CopyBuffer {
  static constexpr std::uint16_t kOp = 23;
  Enqueue enqueue{};
  std::uint32_t from = 0, to = 0;
  std::uint64_t from_offset = 0, to_offset = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.from, m.to, m.from_offset, m.to_offset, m.size); }
  [[nodiscard]] std::uint32_t Written() const { return to; }
};

struct FillBuffer {
  static constexpr std::uint16_t kOp = 24;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0, size = 0;
  ByteView pattern{};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.size, m.pattern); }
  [[nodiscard]] std::uint32_t Written() const { return buffer; }
};

/// A box in a buffer; the host's side is tightly packed.
struct WriteBufferRect {
  static constexpr std::uint16_t kOp = 25;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, row_pitch = 0, slice_pitch = 0;
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) {
    f(m.enqueue, m.buffer, m.origin, m.region, m.row_pitch, m.slice_pitch, m.content, m.ticket);
  }
  [[nodiscard]] std::uint32_t Written() const { return buffer; }
};

struct ReadBufferRect {
  static constexpr std::uint16_t kOp = 26;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, row_pitch = 0, slice_pitch = 0, to = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.origin, m.region, m.row_pitch, m.slice_pitch, m.to); }
  [[nodiscard]] std::uint32_t Written() const { return kWritesNothing; }
};

struct CopyBufferRect {
  static constexpr std::uint16_t kOp = 27;
  Enqueue enqueue{};
  std::uint32_t from = 0, to = 0;
  std::uint64_t from_origin[3] = {}, to_origin[3] = {}, region[3] = {};
  std::uint64_t from_row_pitch = 0, from_slice_pitch = 0, to_row_pitch = 0, to_slice_pitch = 0;
  static void Fields(auto& m, auto& f) {
    f(m.enqueue, m.from, m.to, m.from_origin, m.to_origin, m.region, m.from_row_pitch, m.from_slice_pitch,
      m.to_row_pitch, m.to_slice_pitch);
  }
  [[nodiscard]] std::uint32_t Written() const { return to; }
};

/// Tightly packed rows.
struct WriteImage {
  static constexpr std::uint16_t kOp = 28;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {};
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.content, m.ticket); }
  [[nodiscard]] std::uint32_t Written() const { return image; }
};

/// Tightly packed rows, to a range of `size` bytes at `to`.
struct ReadImage {
  static constexpr std::uint16_t kOp = 29;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, to = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.to, m.size); }
  [[nodiscard]] std::uint32_t Written() const { return kWritesNothing; }
};

struct CopyImage {
  static constexpr std::uint16_t kOp = 30;
  Enqueue enqueue{};
  std::uint32_t from = 0, to = 0;
  std::uint64_t from_origin[3] = {}, to_origin[3] = {}, region[3] = {};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.from, m.to, m.from_origin, m.to_origin, m.region); }
  [[nodiscard]] std::uint32_t Written() const { return to; }
};

struct FillImage {
  static constexpr std::uint16_t kOp = 31;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {};
  std::uint32_t colour[4] = {};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.colour); }
  [[nodiscard]] std::uint32_t Written() const { return image; }
};

struct CopyImageToBuffer {
  static constexpr std::uint16_t kOp = 32;
  Enqueue enqueue{};
  std::uint32_t image = 0, buffer = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, offset = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.buffer, m.origin, m.region, m.offset); }
  [[nodiscard]] std::uint32_t Written() const { return buffer; }
};

struct CopyBufferToImage {
  static constexpr std::uint16_t kOp = 33;
  Enqueue enqueue{};
  std::uint32_t buffer = 0, image = 0;
  std::uint64_t offset = 0, origin[3] = {}, region[3] = {};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.image, m.offset, m.origin, m.region); }
  [[nodiscard]] std::uint32_t Written() const { return image; }
};

/// Also stands for a map or unmap of a buffer in shared memory. `ends_task`: the program's own marker.
struct Marker {
  static constexpr std::uint16_t kOp = 34;
  Enqueue enqueue{};
  std::uint8_t ends_task = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.ends_task); }
  [[nodiscard]] std::uint32_t Written() const { return kWritesNothing; }
};

struct Barrier {
  static constexpr std::uint16_t kOp = 35;
  Enqueue enqueue{};
  static void Fields(auto& m, auto& f) { f(m.enqueue); }
  [[nodiscard]] std::uint32_t Written() const { return kWritesNothing; }
};

struct Migrate {
  static constexpr std::uint16_t kOp = 36;
  Enqueue enqueue{};
  IdList objects{};
  std::uint64_t flags = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.objects, m.flags); }
  [[nodiscard]] std::uint32_t Written() const { return kWritesNothing; }
};

struct Flush {
  static constexpr std::uint16_t kOp = 37;
  std::uint32_t queue = 0;
  static void Fields(auto& m, auto& f) { f(m.queue); }
};

// -- Lists of the commands -------------------------------------------------------------------------------------------

// Formatted by hand, because clang-format's result is not stable here.
// clang-format off
/// Commands that transfer contents of buffers and images.
#define WEIR_CL_TRANSFERS(X) \
  X(WriteBuffer) X(ReadBuffer) X(CopyBuffer) X(FillBuffer) X(WriteBufferRect) X(ReadBufferRect) X(CopyBufferRect) \
  X(WriteImage) X(ReadImage) X(CopyImage) X(FillImage) X(CopyImageToBuffer) X(CopyBufferToImage)
/// Commands that order others.
#define WEIR_CL_ORDERS(X) X(Marker) X(Barrier) X(Migrate) X(Flush)
// clang-format on

#define WEIR_CL_LISTED(M) , M
using AllCommands = std::tuple<NdRange WEIR_CL_TRANSFERS(WEIR_CL_LISTED) WEIR_CL_ORDERS(WEIR_CL_LISTED)>;
#undef WEIR_CL_LISTED

}  // namespace weir::proto::cl
