// SPDX-License-Identifier: Apache-2.0
// The messages between an OpenCL client and its executor (docs/protocol/opencl.md). Each lists its fields once, in wire
// order; encoding, decoding, the golden bytes and the fuzzer follow from that. Append fields, never insert or remove.
// Values named cl_* are OpenCL's own numbers.
#pragma once

#include "proto/opencl_codec.h"

namespace weir::proto::cl {

inline constexpr std::uint32_t kHelloMagic = 0x31434F57;  // "WOC1"
inline constexpr std::uint16_t kVersion = 1;
/// Writes up to this many bytes travel in their message.
inline constexpr std::size_t kInlineBytesMax = 16 * 1024;
/// Of a ticket: nobody waits for it, and its Freed need wake nobody.
inline constexpr std::uint64_t kNobodyWaits = 1ULL << 63;
/// Ranges of the arena begin at multiples of this: what a buffer of any device asks of host memory it is to use.
inline constexpr std::uint64_t kArenaAlignment = 4096;

enum class Op : std::uint16_t {
  // Objects. No answer.
  kCreateContext = 1,
  kCreateQueue = 2,
  kCreateBuffer = 3,
  kCreateSubBuffer = 4,
  kCreateImage = 5,
  kCreateSampler = 6,
  kCreateProgram = 7,
  kCreateProgramFromBinary = 8,
  kCreateKernel = 9,
  kCreateUserEvent = 10,
  kSetUserEvent = 11,
  kSetArg = 12,
  kRelease = 13,
  // Commands. No answer.
  kNdRange = 20,
  kWriteBuffer = 21,
  kReadBuffer = 22,
  kCopyBuffer = 23,
  kFillBuffer = 24,
  kWriteBufferRect = 25,
  kReadBufferRect = 26,
  kCopyBufferRect = 27,
  kWriteImage = 28,
  kReadImage = 29,
  kCopyImage = 30,
  kFillImage = 31,
  kCopyImageToBuffer = 32,
  kCopyBufferToImage = 33,
  kMarker = 34,
  kBarrier = 35,
  kMigrate = 36,
  kFlush = 37,
  // Requests. One Reply each, or one of the client's answers below.
  kBuild = 50,
  kCompile = 51,
  kLink = 52,
  kGetBinary = 53,
  kCreateSubDevices = 54,
  kFinish = 55,
  kWatch = 56,
  kKernelWorkGroup = 57,
  kImageFormats = 58,
  // Executor to client.
  kReply = 100,
  kEventDone = 101,
  kFreed = 102,
  kNotice = 103,
  kArrived = 104,
};

// -- Objects ---------------------------------------------------------------------------------------------------------

struct CreateContext {
  static constexpr Op kOp = Op::kCreateContext;
  std::uint32_t id = 0;
  IdList devices{};
  static void Fields(auto& m, auto& f) { f(m.id, m.devices); }
};

struct CreateQueue {
  static constexpr Op kOp = Op::kCreateQueue;
  std::uint32_t id = 0, context = 0, device = 0;
  std::uint64_t properties = 0;  // cl_command_queue_properties
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.device, m.properties); }
};

/// The buffer's host range in the arena is [offset, offset + size); what it holds then is the buffer's first content.
struct CreateBuffer {
  static constexpr Op kOp = Op::kCreateBuffer;
  std::uint32_t id = 0, context = 0;
  std::uint64_t flags = 0;  // cl_mem_flags, host-pointer flags taken out
  std::uint64_t size = 0, offset = 0;
  std::uint8_t filled = 0;  // 1: the range holds what the buffer is to hold
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.flags, m.size, m.offset, m.filled); }
};

struct CreateSubBuffer {
  static constexpr Op kOp = Op::kCreateSubBuffer;
  std::uint32_t id = 0, parent = 0;
  std::uint64_t flags = 0, origin = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.parent, m.flags, m.origin, m.size); }
};

/// `content`: tightly packed rows, or empty; with `ticket` it is freed when it has been read.
struct CreateImage {
  static constexpr Op kOp = Op::kCreateImage;
  std::uint32_t id = 0, context = 0;
  std::uint64_t flags = 0;
  std::uint32_t channel_order = 0, channel_type = 0, type = 0;
  std::uint64_t width = 0, height = 0, depth = 0, array_size = 0, row_pitch = 0;
  std::uint32_t buffer = 0;  // of an image over a buffer
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) {
    f(m.id, m.context, m.flags, m.channel_order, m.channel_type, m.type, m.width, m.height, m.depth, m.array_size,
      m.row_pitch, m.buffer, m.content, m.ticket);
  }
};

struct CreateSampler {
  static constexpr Op kOp = Op::kCreateSampler;
  std::uint32_t id = 0, context = 0, normalized = 0, addressing = 0, filter = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.normalized, m.addressing, m.filter); }
};

struct CreateProgram {
  static constexpr Op kOp = Op::kCreateProgram;
  std::uint32_t id = 0, context = 0;
  Blob source{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.source, m.ticket); }
};

/// The driver's binary for one device; the answer to kGetBinary is one.
struct CreateProgramFromBinary {
  static constexpr Op kOp = Op::kCreateProgramFromBinary;
  std::uint32_t id = 0, context = 0;
  IdList devices{};
  Blob binary{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.devices, m.binary, m.ticket); }
};

struct CreateKernel {
  static constexpr Op kOp = Op::kCreateKernel;
  std::uint32_t id = 0, program = 0;
  std::string_view name{};
  static void Fields(auto& m, auto& f) { f(m.id, m.program, m.name); }
};

struct CreateUserEvent {
  static constexpr Op kOp = Op::kCreateUserEvent;
  std::uint32_t id = 0, context = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.context); }
};

struct SetUserEvent {
  static constexpr Op kOp = Op::kSetUserEvent;
  std::uint32_t id = 0;
  std::int32_t status = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.status); }
};

enum class ArgKind : std::uint8_t { kData = 0, kObject = 1, kLocal = 2, kNull = 3 };

struct SetArg {
  static constexpr Op kOp = Op::kSetArg;
  std::uint32_t kernel = 0, index = 0;
  std::uint8_t kind = 0;     // ArgKind
  std::uint32_t object = 0;  // kObject: a memory object or a sampler
  std::uint64_t size = 0;    // kLocal; kNull: of the pointer to nothing
  ByteView data{};           // kData
  static void Fields(auto& m, auto& f) { f(m.kernel, m.index, m.kind, m.object, m.size, m.data); }
};

/// The client has no more use for an object, of any kind; what uses it keeps it. `ticket`, if not 0, comes back in a
/// Freed when a memory object is gone for good, its arena range with it.
struct Release {
  static constexpr Op kOp = Op::kRelease;
  std::uint32_t id = 0;
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.ticket); }
};

// -- Commands --------------------------------------------------------------------------------------------------------

/// What every command has. `event`: the id of the event it makes, or 0.
struct Enqueue {
  std::uint32_t queue = 0, event = 0;
  IdList waits{};
  static void Fields(auto& m, auto& f) { f(m.queue, m.event, m.waits); }
};

struct NdRange {
  static constexpr Op kOp = Op::kNdRange;
  Enqueue enqueue{};
  std::uint32_t kernel = 0;
  std::uint8_t dimensions = 0;
  std::uint8_t has_local = 0;
  std::uint64_t offset[3] = {}, global[3] = {}, local[3] = {};
  static void Fields(auto& m, auto& f) {
    f(m.enqueue, m.kernel, m.dimensions, m.has_local, m.offset, m.global, m.local);
  }
};

/// `content` may be used again when Freed says so.
struct WriteBuffer {
  static constexpr Op kOp = Op::kWriteBuffer;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0;
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.content, m.ticket); }
};

/// When it is done the bytes are at `to` in the arena.
struct ReadBuffer {
  static constexpr Op kOp = Op::kReadBuffer;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0, size = 0, to = 0;
  std::uint8_t waited = 0;  // 1: its caller waits, and enqueues nothing meanwhile that the bytes could be changed by
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.size, m.to, m.waited); }
};

struct CopyBuffer {
  static constexpr Op kOp = Op::kCopyBuffer;
  Enqueue enqueue{};
  std::uint32_t from = 0, to = 0;
  std::uint64_t from_offset = 0, to_offset = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.from, m.to, m.from_offset, m.to_offset, m.size); }
};

struct FillBuffer {
  static constexpr Op kOp = Op::kFillBuffer;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0, size = 0;
  ByteView pattern{};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.size, m.pattern); }
};

/// Of a box in a buffer; the host's side is tightly packed.
struct WriteBufferRect {
  static constexpr Op kOp = Op::kWriteBufferRect;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, row_pitch = 0, slice_pitch = 0;
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) {
    f(m.enqueue, m.buffer, m.origin, m.region, m.row_pitch, m.slice_pitch, m.content, m.ticket);
  }
};

struct ReadBufferRect {
  static constexpr Op kOp = Op::kReadBufferRect;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, row_pitch = 0, slice_pitch = 0, to = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.origin, m.region, m.row_pitch, m.slice_pitch, m.to); }
};

struct CopyBufferRect {
  static constexpr Op kOp = Op::kCopyBufferRect;
  Enqueue enqueue{};
  std::uint32_t from = 0, to = 0;
  std::uint64_t from_origin[3] = {}, to_origin[3] = {}, region[3] = {};
  std::uint64_t from_row_pitch = 0, from_slice_pitch = 0, to_row_pitch = 0, to_slice_pitch = 0;
  static void Fields(auto& m, auto& f) {
    f(m.enqueue, m.from, m.to, m.from_origin, m.to_origin, m.region, m.from_row_pitch, m.from_slice_pitch,
      m.to_row_pitch, m.to_slice_pitch);
  }
};

/// Tightly packed.
struct WriteImage {
  static constexpr Op kOp = Op::kWriteImage;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {};
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.content, m.ticket); }
};

/// Tightly packed, to a range of `size` bytes at `to`.
struct ReadImage {
  static constexpr Op kOp = Op::kReadImage;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, to = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.to, m.size); }
};

struct CopyImage {
  static constexpr Op kOp = Op::kCopyImage;
  Enqueue enqueue{};
  std::uint32_t from = 0, to = 0;
  std::uint64_t from_origin[3] = {}, to_origin[3] = {}, region[3] = {};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.from, m.to, m.from_origin, m.to_origin, m.region); }
};

struct FillImage {
  static constexpr Op kOp = Op::kFillImage;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {};
  std::uint32_t colour[4] = {};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.colour); }
};

struct CopyImageToBuffer {
  static constexpr Op kOp = Op::kCopyImageToBuffer;
  Enqueue enqueue{};
  std::uint32_t image = 0, buffer = 0;
  std::uint64_t origin[3] = {}, region[3] = {}, offset = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.buffer, m.origin, m.region, m.offset); }
};

struct CopyBufferToImage {
  static constexpr Op kOp = Op::kCopyBufferToImage;
  Enqueue enqueue{};
  std::uint32_t buffer = 0, image = 0;
  std::uint64_t offset = 0, origin[3] = {}, region[3] = {};
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.image, m.offset, m.origin, m.region); }
};

/// Also what a map or an unmap of a buffer in shared memory is in its queue. `ends_task`: the program's own marker.
struct Marker {
  static constexpr Op kOp = Op::kMarker;
  Enqueue enqueue{};
  std::uint8_t ends_task = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.ends_task); }
};

struct Barrier {
  static constexpr Op kOp = Op::kBarrier;
  Enqueue enqueue{};
  static void Fields(auto& m, auto& f) { f(m.enqueue); }
};

struct Migrate {
  static constexpr Op kOp = Op::kMigrate;
  Enqueue enqueue{};
  IdList objects{};
  std::uint64_t flags = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.objects, m.flags); }
};

struct Flush {
  static constexpr Op kOp = Op::kFlush;
  std::uint32_t queue = 0;
  static void Fields(auto& m, auto& f) { f(m.queue); }
};

// -- Requests --------------------------------------------------------------------------------------------------------

/// Options as the program gave them, less the include paths: what they led to is in `headers`.
struct IncludedFile {
  std::string_view name{};
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.name, m.content, m.ticket); }
};

struct Build {
  static constexpr Op kOp = Op::kBuild;
  std::uint32_t request = 0, program = 0;
  IdList devices{};  // empty: all of the program's
  std::string_view options{};
  std::vector<IncludedFile> headers{};
  static void Fields(auto& m, auto& f) { f(m.request, m.program, m.devices, m.options, m.headers); }
};

/// `header_programs[i]` is what the program includes as `header_names[i]`.
struct Compile {
  static constexpr Op kOp = Op::kCompile;
  std::uint32_t request = 0, program = 0;
  IdList devices{};
  std::string_view options{};
  std::vector<IncludedFile> headers{};
  IdList header_programs{};
  std::vector<std::string_view> header_names{};
  static void Fields(auto& m, auto& f) {
    f(m.request, m.program, m.devices, m.options, m.headers, m.header_programs, m.header_names);
  }
};

/// Makes program `id`.
struct Link {
  static constexpr Op kOp = Op::kLink;
  std::uint32_t request = 0, id = 0, context = 0;
  IdList devices{};
  std::string_view options{};
  IdList programs{};
  static void Fields(auto& m, auto& f) { f(m.request, m.id, m.context, m.devices, m.options, m.programs); }
};

/// Answered with the driver's binary.
struct GetBinary {
  static constexpr Op kOp = Op::kGetBinary;
  std::uint32_t request = 0, program = 0, device = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.program, m.device); }
};

/// Makes devices with the ids `first`, `first` + 1 ...; answered with their DeviceFacts.
struct CreateSubDevices {
  static constexpr Op kOp = Op::kCreateSubDevices;
  std::uint32_t request = 0, device = 0, first = 0;
  NumberList<std::uint64_t> properties{};  // cl_device_partition_property, as given, the closing 0 included
  static void Fields(auto& m, auto& f) { f(m.request, m.device, m.first, m.properties); }
};

/// Answered when all that was enqueued before is done, with the first error of an enqueue without an event.
struct Finish {
  static constexpr Op kOp = Op::kFinish;
  std::uint32_t request = 0, queue = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.queue); }
};

/// Tell me when this event has ended: EventDone.
struct Watch {
  static constexpr Op kOp = Op::kWatch;
  std::uint32_t event = 0;
  static void Fields(auto& m, auto& f) { f(m.event); }
};

/// clGetKernelWorkGroupInfo of what the build's answer doesn't hold (sub-devices); answered with the value's bytes.
struct KernelWorkGroup {
  static constexpr Op kOp = Op::kKernelWorkGroup;
  std::uint32_t request = 0, kernel = 0, device = 0, name = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.kernel, m.device, m.name); }
};

/// clGetSupportedImageFormats; answered with pairs of 4-byte numbers.
struct ImageFormats {
  static constexpr Op kOp = Op::kImageFormats;
  std::uint32_t request = 0, context = 0;
  std::uint64_t flags = 0;
  std::uint32_t type = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.context, m.flags, m.type); }
};

// -- Executor to client ----------------------------------------------------------------------------------------------

/// One part of an answer; `more`: another follows, and the body is what all of them make up. Of a build, compile or
/// link it is a BuildFacts, of kGetBinary the bytes, of kCreateSubDevices a SubDeviceFacts.
struct Reply {
  static constexpr Op kOp = Op::kReply;
  std::uint32_t request = 0;
  std::int32_t status = 0;  // OpenCL's error code
  std::uint8_t more = 0;
  ByteView part{};
  static void Fields(auto& m, auto& f) { f(m.request, m.status, m.more, m.part); }
};
inline constexpr std::size_t kReplyPartBytesMax = 32 * 1024;

/// Times are CLOCK_MONOTONIC, ns; 0 where the device does not say.
struct EventDone {
  static constexpr Op kOp = Op::kEventDone;
  std::uint32_t event = 0;
  std::int32_t status = 0;
  std::uint64_t queued_ns = 0, submit_ns = 0, start_ns = 0, end_ns = 0;
  static void Fields(auto& m, auto& f) { f(m.event, m.status, m.queued_ns, m.submit_ns, m.start_ns, m.end_ns); }
};

struct Freed {
  static constexpr Op kOp = Op::kFreed;
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.ticket); }
};

/// For the context's callback: what went wrong with a message that has no answer.
struct Notice {
  static constexpr Op kOp = Op::kNotice;
  std::uint32_t context = 0;
  std::int32_t status = 0;
  std::string_view text{};
  static void Fields(auto& m, auto& f) { f(m.context, m.status, m.text); }
};

/// Sent to a distant client (Hello::distant), before anything that could tell it that a read has ended: this part of
/// the arena is what the read has put there, or is to be what lies in the buffers' memory.
struct Arrived {
  static constexpr Op kOp = Op::kArrived;
  std::uint64_t offset = 0, size = 0;
  std::uint8_t in_buffers = 0;  // 1: the bytes are not in the arena, but in the buffers' memory, …
  std::uint64_t from = 0;       // … here
  static void Fields(auto& m, auto& f) { f(m.offset, m.size, m.in_buffers, m.from); }
};

// -- Bodies ----------------------------------------------------------------------------------------------------------

struct ArgFacts {
  std::string name, type;
  std::uint32_t address = 0, access = 0;  // cl_kernel_arg_address_qualifier, cl_kernel_arg_access_qualifier
  std::uint64_t type_qualifier = 0;
  static void Fields(auto& m, auto& f) { f(m.name, m.type, m.address, m.access, m.type_qualifier); }
};

/// clGetKernelWorkGroupInfo for one device.
struct WorkGroupFacts {
  std::uint32_t device = 0;
  std::uint64_t size = 0, preferred_multiple = 0, local_bytes = 0, private_bytes = 0, compile_size[3] = {};
  static void Fields(auto& m, auto& f) {
    f(m.device, m.size, m.preferred_multiple, m.local_bytes, m.private_bytes, m.compile_size);
  }
};

struct KernelFacts {
  std::string name, attributes;
  std::uint32_t arg_count = 0;
  std::vector<ArgFacts> args;  // empty: the driver doesn't tell
  std::vector<WorkGroupFacts> groups;
  static void Fields(auto& m, auto& f) { f(m.name, m.attributes, m.arg_count, m.args, m.groups); }
};

struct DeviceBuildFacts {
  std::uint32_t device = 0;
  std::int32_t status = 0;  // cl_build_status
  std::uint32_t binary_type = 0;
  std::uint64_t binary_size = 0;
  std::uint64_t global_variables = 0;
  std::string log;
  static void Fields(auto& m, auto& f) {
    f(m.device, m.status, m.binary_type, m.binary_size, m.global_variables, m.log);
  }
};

struct BuildFacts {
  std::vector<DeviceBuildFacts> devices;
  std::vector<KernelFacts> kernels;
  static void Fields(auto& m, auto& f) { f(m.devices, m.kernels); }
};

/// One value of clGetDeviceInfo or clGetPlatformInfo, as the driver gave it.
struct Fact {
  std::uint32_t name = 0;
  std::string value;
  static void Fields(auto& m, auto& f) { f(m.name, m.value); }
};

struct DeviceFacts {
  std::uint32_t id = 0;
  std::uint8_t shares_arena = 0;  // its buffers are their ranges in the arena
  std::vector<Fact> facts;
  static void Fields(auto& m, auto& f) { f(m.id, m.shares_arena, m.facts); }
};

struct SubDeviceFacts {
  std::vector<DeviceFacts> devices;
  static void Fields(auto& m, auto& f) { f(m.devices); }
};

/// The one platform, sent as the body of the reply to request 0 right after the Welcome.
struct PlatformFacts {
  std::vector<Fact> facts;
  std::vector<DeviceFacts> devices;
  static void Fields(auto& m, auto& f) { f(m.facts, m.devices); }
};

// -- The handshake, one packet each way on the socket ----------------------------------------------------------------

struct Hello {
  static constexpr std::uint16_t kOp = 1;
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::string_view program{};  // for people
  std::uint8_t distant = 0;    // 1: its arena is not the executor's; what reads put there is told (Arrived) and sent
  static void Fields(auto& m, auto& f) { f(m.magic, m.version, m.program, m.distant); }
};

/// Comes with two descriptors: the rings, the arena. Or with none and a refusal. A distant client's with a third one,
/// the buffers' memory, where the device works in host memory.
struct Welcome {
  static constexpr std::uint16_t kOp = 2;
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint64_t ring_bytes = 0;  // of each ring
  std::uint64_t arena_bytes = 0;
  std::string_view refusal{};
  std::uint64_t buffers_bytes = 0;
  static void Fields(auto& m, auto& f) {
    f(m.magic, m.version, m.ring_bytes, m.arena_bytes, m.refusal, m.buffers_bytes);
  }
};
inline constexpr std::size_t kHandshakeBytesMax = 1024;

}  // namespace weir::proto::cl
