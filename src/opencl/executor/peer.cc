// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/peer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kEvent = 4, kFirstFree = 5, kFirstBuffer = 1U << 16;
constexpr Duration kPeerLook = milliseconds(50);
constexpr double kSlowest = 1e3;  // bytes/s; a link that is measured to be slower is taken for a mistake

/// What has to be equal for results to be bit-identical.
constexpr std::array<cl_device_info, 9> kOfTheClass{CL_DEVICE_NAME,
                                                    CL_DEVICE_VENDOR,
                                                    CL_DRIVER_VERSION,
                                                    CL_DEVICE_VERSION,
                                                    CL_DEVICE_OPENCL_C_VERSION,
                                                    CL_DEVICE_ADDRESS_BITS,
                                                    CL_DEVICE_SINGLE_FP_CONFIG,
                                                    CL_DEVICE_DOUBLE_FP_CONFIG,
                                                    CL_DEVICE_MAX_WORK_GROUP_SIZE};

const wire::Fact* FactOf(const wire::DeviceFacts& device, std::uint32_t name) {
  const auto found = std::ranges::find(device.facts, name, &wire::Fact::name);
  return found == device.facts.end() ? nullptr : &*found;
}

}  // namespace

Result<std::unique_ptr<Peer>> Peer::Join(const std::string& path, const wire::DeviceFacts& ours,
                                         const std::atomic<bool>& stop) {
  WEIR_TRY(Connection connection, Connect(path, "weir-executor"));
  std::unique_ptr<Peer> peer(new Peer(path, std::move(connection), stop));
  peer->next_id_ = kFirstFree;
  WEIR_TRY_STATUS(peer->LearnFacts(ours));
  const std::int64_t asked_ns = platform::NowNs();
  WEIR_TRY_STATUS(peer->Send(wire::CreateContext{.id = kContext, .devices = wire::IdList(&kDevice, 1)}));
  WEIR_TRY_STATUS(peer->Send(wire::CreateQueue{
      .id = kQueue, .context = kContext, .device = kDevice, .properties = CL_QUEUE_PROFILING_ENABLE}));
  WEIR_TRY_STATUS(peer->Send(wire::Finish{.request = ++peer->next_request_, .queue = kQueue}));
  WEIR_TRY_STATUS(peer->Await(peer->next_request_, "making a context"));
  peer->latency_ = Duration{(platform::NowNs() - asked_ns) / 2};
  return peer;
}

Status Peer::LearnFacts(const wire::DeviceFacts& ours) {
  WEIR_TRY_STATUS(Await(0, "asking for its device"));
  wire::PlatformFacts facts;
  wire::FieldReader reader(facts_);
  wire::PlatformFacts::Fields(facts, reader);
  if (reader.malformed() || facts.devices.empty()) return Fail(Errc::kProtocol, path_ + " describes no device");
  const wire::DeviceFacts& theirs = facts.devices.front();
  for (const cl_device_info name : kOfTheClass) {
    const wire::Fact* const here = FactOf(ours, name);
    const wire::Fact* const there = FactOf(theirs, name);
    if ((here == nullptr) != (there == nullptr) || (here != nullptr && here->value != there->value))
      return Fail(Errc::kVersionMismatch, "the device of " + path_ +
                                              " is of another kind: launches are split between " +
                                              "devices and drivers of one kind only");
  }
  const wire::Fact* const memory = FactOf(theirs, CL_DEVICE_GLOBAL_MEM_SIZE);
  if (memory != nullptr && memory->value.size() == sizeof room_)
    std::memcpy(&room_, memory->value.data(), sizeof room_);
  room_ = std::min(room_, connection_.arena.bytes());
  return Ok();
}

// -- Messages --------------------------------------------------------------------------------------------------------

template <typename M>
Status Peer::Send(const M& message) {
  const std::size_t bytes = wire::SizeOf(message);
  if (bytes > wire::kMessageBytesMax) return Fail(Errc::kResourceExhausted, "a message that is too long for " + path_);
  std::byte* at = nullptr;
  while ((at = connection_.channel.out.Reserve(bytes)) == nullptr) {
    connection_.channel.out.WaitForRoom(bytes, kPeerLook);
    if (stop_.load(std::memory_order_relaxed) || connection_.channel.out.broken() ||
        !StillConnected(connection_.socket.get()))
      return Fail(Errc::kUnavailable, path_ + " has gone");
  }
  wire::EncodeInto(message, {at, bytes});
  connection_.channel.out.Send(bytes);
  return Ok();
}

Status Peer::Receive() {
  WEIR_TRY(const wire::ByteView message, connection_.channel.in.Next(scratch_));
  if (message.empty()) {
    if (connection_.channel.in.Wait(kPeerLook)) return Ok();
    if (stop_.load(std::memory_order_relaxed) || !StillConnected(connection_.socket.get()))
      return Fail(Errc::kUnavailable, path_ + " has gone");
    return Ok();
  }
  wire::Header header;
  wire::Reply reply;
  wire::Notice notice;
  bool understood = wire::ReadHeader(message, header);
  switch (understood ? static_cast<wire::Op>(header.op) : wire::Op{}) {
    case wire::Op::kReply:
      understood = wire::Decode(message, reply);
      if (!understood) break;
      if (reply.request == 0) facts_.insert(facts_.end(), reply.part.begin(), reply.part.end());
      if (reply.more == 0) answers_[reply.request] = reply.status;
      break;
    case wire::Op::kNotice:
      understood = wire::Decode(message, notice);
      if (understood) notice_ = notice.text;
      break;
    case wire::Op::kEventDone: understood = wire::Decode(message, done_); break;
    default: break;  // Freed, Arrived
  }
  return understood ? Ok() : Fail(Errc::kProtocol, path_ + " sent what is no message");
}

Status Peer::Await(std::uint32_t request, std::string_view attempted) {
  while (!answers_.contains(request)) WEIR_TRY_STATUS(Receive());
  const std::int32_t status = answers_.extract(request).mapped();
  if (status == CL_SUCCESS) return Ok();
  return Fail(Errc::kUnavailable, path_ + ": " + std::string(attempted) + " failed with error " +
                                      std::to_string(status) + (notice_.empty() ? "" : ": " + notice_));
}

// -- A part ----------------------------------------------------------------------------------------------------------

Result<std::uint32_t> Peer::KernelOf(const PartProgram& program, const std::string& kernel) {
  if (next_id_ >= kFirstBuffer - 2) return Fail(Errc::kResourceExhausted, "too many programs for " + path_);
  auto& [id, kernels] = programs_[program.number()];
  if (id == 0) {
    const std::string& source = program.source();
    WEIR_TRY(const std::uint64_t at, Place(source.size()));
    std::memcpy(connection_.arena.As<std::byte>() + at, source.data(), source.size());
    const std::uint32_t made = next_id_++;
    WEIR_TRY_STATUS(
        Send(wire::CreateProgram{.id = made, .context = kContext, .source = wire::Blob::Arena(at, source.size())}));
    WEIR_TRY_STATUS(Send(wire::Build{.request = ++next_request_, .program = made, .options = program.options()}));
    WEIR_TRY_STATUS(Await(next_request_, "building the part's kernels"));
    id = made;
  }
  std::uint32_t& known = kernels[kernel];
  if (known == 0) {
    const std::string name = PartProgram::NameOf(kernel);
    WEIR_TRY_STATUS(Send(wire::CreateKernel{.id = next_id_, .program = id, .name = name}));
    known = next_id_++;
  }
  return known;
}

Result<std::uint64_t> Peer::Place(std::uint64_t bytes) {
  const std::uint64_t at = placed_;
  const std::uint64_t size = (bytes + wire::kArenaAlignment - 1) / wire::kArenaAlignment * wire::kArenaAlignment;
  if (size > connection_.arena.bytes() - at) return Fail(Errc::kResourceExhausted, "no room in the arena of " + path_);
  placed_ += size;
  return at;
}

Status Peer::SendSlices(const PartLaunch& part, const std::vector<const std::byte*>& contents) {
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::uint64_t bytes = part.slices.slices[i].bytes();
    WEIR_TRY(const std::uint64_t at, Place(bytes));
    if (contents[i] != nullptr) {
      std::memcpy(connection_.arena.As<std::byte>() + at, contents[i], bytes);
      moved_ += bytes;
    }
    const std::uint32_t id = kFirstBuffer + static_cast<std::uint32_t>(i);
    WEIR_TRY_STATUS(Send(wire::CreateBuffer{.id = id,
                                            .context = kContext,
                                            .flags = CL_MEM_READ_WRITE,
                                            .size = bytes,
                                            .offset = at,
                                            .filled = static_cast<std::uint8_t>(contents[i] != nullptr ? 1 : 0)}));
    buffers_.push_back(id);
  }
  return Ok();
}

Status Peer::SendArgs(std::uint32_t kernel, const PartLaunch& part) {
  for (std::uint32_t i = 0; i < part.args.size(); ++i) {
    const PartArg& arg = part.args[i];
    wire::SetArg message{.kernel = kernel, .index = i};
    const auto as = [&](wire::ArgKind kind) { message.kind = static_cast<std::uint8_t>(kind); };
    switch (arg.kind) {
      case PartArg::Kind::kSlice:
        as(wire::ArgKind::kObject);
        message.object = buffers_[arg.slice];
        break;
      case PartArg::Kind::kNull:
        as(wire::ArgKind::kNull);
        message.size = sizeof(cl_mem);
        break;
      case PartArg::Kind::kBytes:
        as(wire::ArgKind::kData);
        message.data = arg.bytes;
        break;
      case PartArg::Kind::kLocal:
        as(wire::ArgKind::kLocal);
        message.size = arg.local;
        break;
    }
    WEIR_TRY_STATUS(Send(message));
  }
  return Ok();
}

Status Peer::SendReads(const PartLaunch& part) {
  for (std::size_t i = 0; i < part.slices.slices.size(); ++i)
    for (const core::Extent& extent : part.slices.slices[i].written) {
      WEIR_TRY(const std::uint64_t at, Place(extent.total()));
      const std::uint64_t pitch = extent.rows > 1 ? extent.stride : extent.bytes;
      WEIR_TRY_STATUS(Send(wire::ReadBufferRect{.enqueue = {.queue = kQueue},
                                                .buffer = buffers_[i],
                                                .origin = {extent.begin - part.slices.slices[i].begin, 0, 0},
                                                .region = {extent.bytes, extent.rows, 1},
                                                .row_pitch = pitch,
                                                .to = at}));
      returned_.push_back({.slice = i, .extent = extent, .at = at});
      moved_ += extent.total();
    }
  return Ok();
}

Status Peer::Begin(const PartProgram& program, const PartLaunch& part, const std::vector<const std::byte*>& contents) {
  placed_ = moved_ = 0;
  returned_.clear();
  buffers_.clear();
  done_ = {};
  WEIR_TRY(const std::uint32_t kernel, KernelOf(program, part.kernel));
  begun_ns_ = platform::NowNs();
  WEIR_TRY_STATUS(SendSlices(part, contents));
  WEIR_TRY_STATUS(SendArgs(kernel, part));
  wire::NdRange launch{.enqueue = {.queue = kQueue, .event = kEvent},
                       .kernel = kernel,
                       .dimensions = static_cast<std::uint8_t>(part.dimensions),
                       .has_local = 1};
  std::ranges::copy(part.offset, launch.offset);
  std::ranges::copy(part.global, launch.global);
  std::ranges::copy(part.local, launch.local);
  WEIR_TRY_STATUS(Send(launch));
  WEIR_TRY_STATUS(Send(wire::Watch{.event = kEvent}));
  WEIR_TRY_STATUS(SendReads(part));
  return Send(wire::Finish{.request = ++next_request_, .queue = kQueue});
}

Status Peer::End(const std::vector<std::byte*>& memory) {
  WEIR_TRY_STATUS(Await(next_request_, "running a part"));
  while (done_.event != kEvent) WEIR_TRY_STATUS(Receive());
  if (done_.status != CL_COMPLETE)
    return Fail(Errc::kUnavailable, path_ + ": the part's kernel failed with error " + std::to_string(done_.status) +
                                        (notice_.empty() ? "" : ": " + notice_));
  computed_ = Duration{static_cast<std::int64_t>(done_.end_ns - done_.start_ns)};
  const double link_s = SecondsOf(Duration{platform::NowNs() - begun_ns_} - computed_);
  if (link_s > 0 && moved_ > (1U << 20)) bytes_per_s_ = std::max(static_cast<double>(moved_) / link_s, kSlowest);
  for (const Returned& one : returned_) {
    const std::byte* from = connection_.arena.As<std::byte>() + one.at;
    std::byte* to = memory[one.slice] + one.extent.begin;
    for (std::uint64_t row = 0; row < one.extent.rows; ++row)
      std::memcpy(to + row * one.extent.stride, from + row * one.extent.bytes, one.extent.bytes);
  }
  for (const std::uint32_t buffer : buffers_) WEIR_TRY_STATUS(Send(wire::Release{.id = buffer}));
  return Send(wire::Release{.id = kEvent});
}

}  // namespace weir::opencl
