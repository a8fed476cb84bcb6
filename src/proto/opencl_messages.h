// SPDX-License-Identifier: Apache-2.0
// The messages between an OpenCL client and its executor (docs/protocol/opencl.md). Each lists its fields once, in wire
// order; encoding, decoding, the golden bytes and the fuzzer are derived from this list. Append fields, never insert or
// remove. Values named cl_* are OpenCL's own numbers.
#pragma once

#include "proto/opencl_codec.h"

namespace weir::proto::cl {

inline constexpr std::uint32_t kHelloMagic = 0x31434F57;  // "WOC1"
inline constexpr std::uint16_t kVersion = 1;
/// Writes of up to this many bytes are sent within their message.
inline constexpr std::size_t kInlineBytesMax = 16 * 1024;
/// Flag of a ticket: no thread waits for it, so its Freed need not wake one.
inline constexpr std::uint64_t kNobodyWaits = 1ULL << 63;
/// Alignment of ranges in the arena: enough for host memory that a buffer of any device uses.
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
  // Requests. Each gets one Reply, or one of the other messages to the client below.
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

/// [offset, offset + size) is the buffer's host range in the arena; its bytes are the buffer's initial contents.
struct CreateBuffer {
  static constexpr Op kOp = Op::kCreateBuffer;
  std::uint32_t id = 0, context = 0;
  std::uint64_t flags = 0;  // cl_mem_flags without the host-pointer flags
  std::uint64_t size = 0, offset = 0;
  std::uint8_t filled = 0;  // 1: the range holds the initial contents
  static void Fields(auto& m, auto& f) { f(m.id, m.context, m.flags, m.size, m.offset, m.filled); }
};

struct CreateSubBuffer {
  static constexpr Op kOp = Op::kCreateSubBuffer;
  std::uint32_t id = 0, parent = 0;
  std::uint64_t flags = 0, origin = 0, size = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.parent, m.flags, m.origin, m.size); }
};

/// `content`: tightly packed rows, or empty; with `ticket` its range is freed when it has been read.
struct CreateImage {
  static constexpr Op kOp = Op::kCreateImage;
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

/// The driver's binary for one device, as returned by kGetBinary.
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
  std::uint64_t size = 0;    // kLocal; kNull: size of the null pointer's type
  ByteView data{};           // kData
  static void Fields(auto& m, auto& f) { f(m.kernel, m.index, m.kind, m.object, m.size, m.data); }
};

/// The client has released an object of any kind; objects that use it keep it alive. `ticket`, if not 0, is returned in
/// a Freed when a memory object has been destroyed, and its arena range is free.
struct Release {
  static constexpr Op kOp = Op::kRelease;
  std::uint32_t id = 0;
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.id, m.ticket); }
};

// -- Commands --------------------------------------------------------------------------------------------------------

/// Fields of every command. `event`: the id of the event that it creates, or 0.
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

/// `content` may be reused after its Freed.
struct WriteBuffer {
  static constexpr Op kOp = Op::kWriteBuffer;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0;
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.buffer, m.offset, m.content, m.ticket); }
};

/// On completion the bytes are at `to` in the arena.
struct ReadBuffer {
  static constexpr Op kOp = Op::kReadBuffer;
  Enqueue enqueue{};
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0, size = 0, to = 0;
  std::uint8_t waited = 0;  // 1: the caller waits, and meanwhile enqueues nothing that could change the bytes
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

/// A box in a buffer; the host's side is tightly packed.
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

/// Tightly packed rows.
struct WriteImage {
  static constexpr Op kOp = Op::kWriteImage;
  Enqueue enqueue{};
  std::uint32_t image = 0;
  std::uint64_t origin[3] = {}, region[3] = {};
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.enqueue, m.image, m.origin, m.region, m.content, m.ticket); }
};

/// Tightly packed rows, to a range of `size` bytes at `to`.
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

/// Also stands for a map or unmap of a buffer in shared memory. `ends_task`: the program's own marker.
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

/// Options as the program gave them, without the include paths; the files that these lead to are in `headers`.
struct IncludedFile {
  std::string_view name{};
  Blob content{};
  std::uint64_t ticket = 0;
  static void Fields(auto& m, auto& f) { f(m.name, m.content, m.ticket); }
};

struct Build {
  static constexpr Op kOp = Op::kBuild;
  std::uint32_t request = 0, program = 0;
  IdList devices{};  // empty: all devices of the program
  std::string_view options{};
  std::vector<IncludedFile> headers{};
  static void Fields(auto& m, auto& f) { f(m.request, m.program, m.devices, m.options, m.headers); }
};

/// The program includes `header_programs[i]` as `header_names[i]`.
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

/// Creates program `id`.
struct Link {
  static constexpr Op kOp = Op::kLink;
  std::uint32_t request = 0, id = 0, context = 0;
  IdList devices{};
  std::string_view options{};
  IdList programs{};
  static void Fields(auto& m, auto& f) { f(m.request, m.id, m.context, m.devices, m.options, m.programs); }
};

/// The reply is the driver's binary.
struct GetBinary {
  static constexpr Op kOp = Op::kGetBinary;
  std::uint32_t request = 0, program = 0, device = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.program, m.device); }
};

/// Creates devices with the ids `first`, `first` + 1 ...; the reply is their DeviceFacts.
struct CreateSubDevices {
  static constexpr Op kOp = Op::kCreateSubDevices;
  std::uint32_t request = 0, device = 0, first = 0;
  NumberList<std::uint64_t> properties{};  // cl_device_partition_property as given, including the terminating 0
  static void Fields(auto& m, auto& f) { f(m.request, m.device, m.first, m.properties); }
};

/// The reply is sent when all earlier commands are done; it has the first error of a command without an event.
struct Finish {
  static constexpr Op kOp = Op::kFinish;
  std::uint32_t request = 0, queue = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.queue); }
};

/// Requests an EventDone when this event has ended.
struct Watch {
  static constexpr Op kOp = Op::kWatch;
  std::uint32_t event = 0;
  static void Fields(auto& m, auto& f) { f(m.event); }
};

/// clGetKernelWorkGroupInfo for values that the build's reply lacks (sub-devices); the reply is the value's bytes.
struct KernelWorkGroup {
  static constexpr Op kOp = Op::kKernelWorkGroup;
  std::uint32_t request = 0, kernel = 0, device = 0, name = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.kernel, m.device, m.name); }
};

/// clGetSupportedImageFormats; the reply is pairs of 4-byte numbers.
struct ImageFormats {
  static constexpr Op kOp = Op::kImageFormats;
  std::uint32_t request = 0, context = 0;
  std::uint64_t flags = 0;
  std::uint32_t type = 0;
  static void Fields(auto& m, auto& f) { f(m.request, m.context, m.flags, m.type); }
};

// -- Executor to client ----------------------------------------------------------------------------------------------

/// One part of a reply; `more`: another part follows, and the body is their concatenation. The body is a BuildFacts for
/// a build, compile or link, the bytes for kGetBinary, and a SubDeviceFacts for kCreateSubDevices.
struct Reply {
  static constexpr Op kOp = Op::kReply;
  std::uint32_t request = 0;
  std::int32_t status = 0;  // OpenCL's error code
  std::uint8_t more = 0;
  ByteView part{};
  static void Fields(auto& m, auto& f) { f(m.request, m.status, m.more, m.part); }
};
inline constexpr std::size_t kReplyPartBytesMax = 32 * 1024;

/// Times are CLOCK_MONOTONIC, ns; 0 if the device does not report them.
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

/// For the context's callback: the failure of a message that has no reply.
struct Notice {
  static constexpr Op kOp = Op::kNotice;
  std::uint32_t context = 0;
  std::int32_t status = 0;
  std::string_view text{};
  static void Fields(auto& m, auto& f) { f(m.context, m.status, m.text); }
};

/// Sent to a remote client (Hello::remote) before any message that may report the end of a read: this part of the
/// arena holds the result of the read, or will be filled from the buffers' memory.
struct Arrived {
  static constexpr Op kOp = Op::kArrived;
  std::uint64_t offset = 0, size = 0;
  std::uint8_t in_buffers = 0;  // 1: the bytes are in the buffers' memory rather than in the arena
  std::uint64_t from = 0;       // their position in the buffers' memory
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
  std::vector<ArgFacts> args;  // empty if the driver does not report them
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

/// One value of clGetDeviceInfo or clGetPlatformInfo, as returned by the driver.
struct Fact {
  std::uint32_t name = 0;
  std::string value;
  static void Fields(auto& m, auto& f) { f(m.name, m.value); }
};

struct DeviceFacts {
  std::uint32_t id = 0;
  std::uint8_t shares_arena = 0;  // its buffers use their ranges in the arena directly
  std::vector<Fact> facts;
  static void Fields(auto& m, auto& f) { f(m.id, m.shares_arena, m.facts); }
};

struct SubDeviceFacts {
  std::vector<DeviceFacts> devices;
  static void Fields(auto& m, auto& f) { f(m.devices); }
};

/// The platform, sent as the body of the reply to request 0 right after the Welcome.
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
  std::string_view program{};  // for display
  std::uint8_t remote = 0;     // 1: a remote client, whose arena is a different one; results of reads are announced
                               // (Arrived) and sent
  static void Fields(auto& m, auto& f) { f(m.magic, m.version, m.program, m.remote); }
};

/// Has two descriptors, the rings and the arena, or a refusal and no descriptors. A remote client gets a third one, the
/// buffers' memory, if the device works in host memory.
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
