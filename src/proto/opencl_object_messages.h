// SPDX-License-Identifier: Apache-2.0
// Messages of an OpenCL client that create, set and release objects. None has an answer. Their numbers are 1 to 19.
// Rules: opencl_messages.h
#pragma once

#include <tuple>

#include "proto/opencl_codec.h"

namespace weir::proto::cl {

struct CreateContext {
  static constexpr std::uint16_t kOp = 1;
  std::uint32_t id = 0;
  IdList devices{};
  static void Fields(auto& m, auto& f) { f(m.id, m.devices); }
};

struct CreateQueue {
  static constexpr std::uint16_t kOp = 2;
  std::uint32_t id = 0, context = 0, device = 0;
  std::uint64_t properties = 0;  // cl_command_queue_properties
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.device, m.properties); }
};

/// [offset, offset + size) is the buffer's host range in the arena; its bytes are the buffer's initial contents.
struct CreateBuffer {
  static constexpr std::uint16_t kOp = 3;
  std::uint32_t id = 0, context = 0;
  std::uint64_t flags = 0;  // cl_mem_flags without the host-pointer flags
  std::uint64_t size = 0, offset = 0;
  std::uint8_t filled = 0;  // 1: the range holds the initial contents
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.flags, m.size, m.offset, m.filled); }
};

struct CreateSubBuffer {
  static constexpr std::uint16_t kOp = 4;
  std::uint32_t id = 0, parent = 0;
  std::uint64_t flags = 0, origin = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.parent, m.flags, m.origin, m.size); }
};

/// `content`: tightly packed rows, or empty; with `ticket` its range is freed when it has been read.
struct CreateImage {
  static constexpr std::uint16_t kOp = 5;
  std::uint32_t id = 0, context = 0;
  std::uint64_t flags = 0;
  std::uint32_t channel_order = 0, channel_type = 0, type = 0;
  std::uint64_t width = 0, height = 0, depth = 0, array_size = 0, row_pitch = 0;
  std::uint32_t buffer = 0;  // for an image over a buffer
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) {
    f(m.id, m.context, m.flags, m.channel_order, m.channel_type, m.type, m.width, m.height, m.depth, m.array_size,
      m.row_pitch, m.buffer, m.content, m.ticket);
  }
};

struct CreateSampler {
  static constexpr std::uint16_t kOp = 6;
  std::uint32_t id = 0, context = 0, normalized = 0, addressing = 0, filter = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.normalized, m.addressing, m.filter); }
};

struct CreateProgram {
  static constexpr std::uint16_t kOp = 7;
  std::uint32_t id = 0, context = 0;
  Blob source{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.source, m.ticket); }
};

/// The driver's binary for one device, as returned by GetBinary.
struct CreateProgramFromBinary {
  static constexpr std::uint16_t kOp = 8;
  std::uint32_t id = 0, context = 0;
  IdList devices{};
  Blob binary{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.devices, m.binary, m.ticket); }
};

struct CreateKernel {
  static constexpr std::uint16_t kOp = 9;
  std::uint32_t id = 0, program = 0;
  std::string_view name{};
  static void Fields(auto& m, auto& f) { f(m.id, m.program, m.name); }
};

struct CreateUserEvent {
  static constexpr std::uint16_t kOp = 10;
  std::uint32_t id = 0, context = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context); }
};

struct SetUserEvent {
  static constexpr std::uint16_t kOp = 11;
  std::uint32_t id = 0;
  std::int32_t status = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.status); }
};

enum class ArgKind : std::uint8_t { kData = 0, kObject = 1, kLocal = 2, kNull = 3 };

struct SetArg {
  static constexpr std::uint16_t kOp = 12;
  std::uint32_t kernel = 0, index = 0;
  std::uint8_t kind = 0;     // ArgKind
  std::uint32_t object = 0;  // kObject: a memory object or a sampler
  std::uint64_t size = 0;    // kLocal; kNull: size of the null pointer's type
  ByteView data{};           // kData
  static void Fields(auto& m, auto& f) { f(m.kernel, m.index, m.kind, m.object, m.size, m.data); }
};

/// The client has released an object of any kind; objects that use it keep it alive. `ticket`, if not 0, is returned in
/// a Freed when a memory object has been destroyed, and its arena range is free.
struct Release {
  static constexpr std::uint16_t kOp = 13;
  std::uint32_t id = 0;
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.ticket); }
};

using AllObjectMessages =
    std::tuple<CreateContext, CreateQueue, CreateBuffer, CreateSubBuffer, CreateImage, CreateSampler, CreateProgram,
               CreateProgramFromBinary, CreateKernel, CreateUserEvent, SetUserEvent, SetArg, Release>;

}  // namespace weir::proto::cl
