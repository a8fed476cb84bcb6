// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/peer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "platform/clock.h"

namespace weir::opencl {
namespace {

namespace wire = proto::cl;

constexpr std::uint32_t kDevice = 1, kContext = 2, kQueue = 3, kFirstFree = 10, kFirstBuffer = 1U << 16,
                        kBuffersMax = 1U << 15;
constexpr Duration kPeerLook = milliseconds(50);
constexpr Duration kJoinWithin = seconds(5);
/// Weight of the latest measurement in a mean.
constexpr double kNewest = 0.3;
constexpr std::uint64_t kTellingBytes = 1U << 20;  // smaller transfers say little about a link
constexpr double kSlowest = 1e3;                   // bytes/s; a slower measurement is considered an error

/// Device properties that must be equal for bit-identical results.
constexpr std::array<cl_device_info, 9> kOfTheClass{CL_DEVICE_NAME,
                                                    CL_DEVICE_VENDOR,
                                                    CL_DRIVER_VERSION,
                                                    CL_DEVICE_VERSION,
                                                    CL_DEVICE_OPENCL_C_VERSION,
                                                    CL_DEVICE_ADDRESS_BITS,
                                                    CL_DEVICE_SINGLE_FP_CONFIG,
                                                    CL_DEVICE_DOUBLE_FP_CONFIG,
                                                    CL_DEVICE_MAX_WORK_GROUP_SIZE};

void TakeIntoMean(double& mean, double value, bool& measured) {
  mean = measured ? (1 - kNewest) * mean + kNewest * value : value;
  measured = true;
}

const wire::Fact* FactOf(const wire::DeviceFacts& device, std::uint32_t name) {
  const auto found = std::ranges::find(device.facts, name, &wire::Fact::name);
  return found == device.facts.end() ? nullptr : &*found;
}

}  // namespace

Result<std::unique_ptr<Peer>> Peer::Join(const std::string& path, const wire::DeviceFacts& ours,
                                         const std::atomic<bool>& stop) {
  WEIR_TRY(Connection connection, Connect(path, kPartsProgram));
  std::unique_ptr<Peer> peer(new Peer(path, std::move(connection), stop));
  peer->next_id_ = kFirstFree;
  peer->until_ns_ = platform::NowNs() + kJoinWithin.count();
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
  // Results have an area of their own in the arena, and areas are page-aligned.
  room_ = std::min(room_, connection_.arena.bytes() / 16 * 7);
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
    if (connection_.channel.out.broken()) return Fail(Errc::kUnavailable, path_ + " has gone");
    WEIR_TRY_STATUS(StillThere());
  }
  wire::EncodeInto(message, {at, bytes});
  connection_.channel.out.Send(bytes);
  return Ok();
}

Status Peer::StillThere() {
  if (stop_.load(std::memory_order_relaxed) || !StillConnected(connection_.socket.get()))
    return Fail(Errc::kUnavailable, path_ + " has gone");
  if (platform::NowNs() > until_ns_) return Fail(Errc::kTimeout, path_ + " is silent");
  return Ok();
}

Status Peer::Receive() {
  WEIR_TRY(const wire::ByteView message, connection_.channel.in.Next(scratch_));
  if (message.empty()) {
    if (connection_.channel.in.Wait(kPeerLook)) return Ok();
    return StillThere();
  }
  wire::Header header;
  wire::Reply reply;
  wire::Notice notice;
  bool understood = wire::ReadHeader(message, header);
  switch (understood ? header.op : std::uint16_t{0}) {
    case wire::Reply::kOp:
      understood = wire::Decode(message, reply);
      if (!understood) break;
      if (reply.request == 0) facts_.insert(facts_.end(), reply.part.begin(), reply.part.end());
      if (reply.more == 0) answers_[reply.request] = reply.status;
      break;
    case wire::Notice::kOp:
      understood = wire::Decode(message, notice);
      if (understood) notice_ = notice.text;
      break;
    case wire::EventDone::kOp: {
      wire::EventDone done;
      understood = wire::Decode(message, done);
      if (understood) done_[done.event] = done;
      break;
    }
    default: break;  // Freed, Arrived
  }
  return understood ? Ok() : Fail(Errc::kProtocol, path_ + " sent a malformed message");
}

Status Peer::Await(std::uint32_t request, std::string_view attempted) {
  while (!answers_.contains(request)) WEIR_TRY_STATUS(Receive());
  const std::int32_t status = answers_.extract(request).mapped();
  if (status == CL_SUCCESS) return Ok();
  return Fail(Errc::kUnavailable, path_ + ": " + std::string(attempted) + " failed with error " +
                                      std::to_string(status) + (notice_.empty() ? "" : ": " + notice_));
}

// -- A part ----------------------------------------------------------------------------------------------------------

Status Peer::Prepare(const PartProgram& program) {
  ProgramThere& there = programs_[program.number()];
  if (there.id != 0 || program.source().empty()) return Ok();
  if (next_id_ >= kFirstBuffer - 2) return Fail(Errc::kResourceExhausted, "too many programs for " + path_);
  const std::string& source = program.source();
  placed_ = sources_;
  end_ = connection_.arena.bytes();
  WEIR_TRY(const std::uint64_t at, Place(source.size()));
  sources_ = placed_;
  std::memcpy(connection_.arena.As<std::byte>() + at, source.data(), source.size());
  const std::uint32_t made = next_id_++;
  WEIR_TRY_STATUS(
      Send(wire::CreateProgram{.id = made, .context = kContext, .source = wire::Blob::Arena(at, source.size())}));
  there.build_request = ++next_request_;
  there.id = made;
  return Send(wire::Build{.request = there.build_request, .program = made, .options = program.options()});
}

Result<Peer::KernelThere*> Peer::KernelOf(const PartProgram& program, const std::string& kernel) {
  WEIR_TRY_STATUS(Prepare(program));
  ProgramThere& there = programs_[program.number()];
  KernelThere& known = there.kernels[kernel];
  if (known.id != 0) return &known;
  if (next_id_ >= kFirstBuffer - 2) return Fail(Errc::kResourceExhausted, "too many kernels for " + path_);
  const std::string name = PartProgram::NameOf(kernel);
  WEIR_TRY_STATUS(Send(wire::CreateKernel{.id = next_id_, .program = there.id, .name = name}));
  known.id = next_id_++;
  return &known;
}

Result<std::uint64_t> Peer::Place(std::uint64_t bytes) {
  const std::uint64_t at = placed_;
  const std::uint64_t size = (bytes + wire::kArenaAlignment - 1) / wire::kArenaAlignment * wire::kArenaAlignment;
  if (size > end_ - at) return Fail(Errc::kResourceExhausted, "no room in the arena of " + path_);
  placed_ += size;
  return at;
}

Result<std::uint32_t> Peer::SendSlice(InFlightPart& mine, std::uint64_t bytes, const std::byte* contents) {
  WEIR_TRY(const std::uint64_t at, Place(bytes));
  if (contents != nullptr) {
    std::memcpy(connection_.arena.As<std::byte>() + at, contents, bytes);
    mine.sent += bytes;
  }
  std::uint32_t id = 0;
  do {
    id = kFirstBuffer + next_buffer_++ % kBuffersMax;
  } while (std::ranges::find(held_, id, &Held::id) != held_.end());
  WEIR_TRY_STATUS(Send(wire::CreateBuffer{.id = id,
                                          .context = kContext,
                                          .flags = CL_MEM_READ_WRITE,
                                          .size = bytes,
                                          .offset = at,
                                          .filled = static_cast<std::uint8_t>(contents != nullptr ? 1 : 0)}));
  return id;
}

/// Slices that stay for the next parts come first, and keep their place in the arena. While another part is in progress
/// none is added to them.
Status Peer::SendSlices(InFlightPart& mine, const PartLaunch& part, const std::vector<const std::byte*>& contents) {
  const std::vector<kernel::MemorySlice>& slices = part.slices.slices;
  const bool alone = in_flight_.empty();
  mine.buffers.assign(slices.size(), 0);
  if (alone) {
    placed_ = std::max(sources_, held_end_);
    end_ = connection_.arena.bytes();
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (!part.alike[i]) continue;
    const auto held =
        std::ranges::find_if(held_, [&](const Held& one) { return kernel::SameBytes(one.slice, slices[i]); });
    if (held != held_.end()) {
      mine.buffers[i] = held->id;
    } else if (alone) {
      WEIR_TRY(mine.buffers[i], SendSlice(mine, slices[i].bytes(), contents[i]));
      held_.push_back({.slice = slices[i], .id = mine.buffers[i]});
      held_end_ = placed_;
    }
  }
  if (alone) {
    first_ = placed_;
    half_ = first_ + (end_ - first_) / 2 / wire::kArenaAlignment * wire::kArenaAlignment;
  } else {
    placed_ = mine.half == 0 ? first_ : half_;
    end_ = mine.half == 0 ? half_ : connection_.arena.bytes();
  }
  for (std::size_t i = 0; i < slices.size(); ++i)
    if (mine.buffers[i] == 0) {
      WEIR_TRY(mine.buffers[i], SendSlice(mine, slices[i].bytes(), contents[i]));
    }
  return Ok();
}

Status Peer::SendArgs(const InFlightPart& mine, const PartLaunch& part) {
  for (std::uint32_t i = 0; i < part.args.size(); ++i) {
    const PartArg& arg = part.args[i];
    wire::SetArg message{.kernel = mine.kernel->id, .index = i};
    const auto as = [&](wire::ArgKind kind) { message.kind = static_cast<std::uint8_t>(kind); };
    switch (arg.kind) {
      case PartArg::Kind::kSlice:
        as(wire::ArgKind::kObject);
        message.object = mine.buffers[arg.slice];
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

Status Peer::SendReads(InFlightPart& mine, const PartLaunch& part) {
  for (std::size_t i = 0; i < part.slices.slices.size(); ++i)
    for (const kernel::Extent& extent : part.slices.slices[i].written) {
      WEIR_TRY(const std::uint64_t at, Place(extent.total()));
      const std::uint64_t pitch = extent.rows > 1 ? extent.stride : extent.bytes;
      WEIR_TRY_STATUS(Send(wire::ReadBufferRect{.enqueue = {.queue = kQueue},
                                                .buffer = mine.buffers[i],
                                                .origin = {extent.begin - part.slices.slices[i].begin, 0, 0},
                                                .region = {extent.bytes, extent.rows, 1},
                                                .row_pitch = pitch,
                                                .to = at}));
      mine.returned.push_back({.slice = i, .extent = extent, .at = at});
    }
  return Ok();
}

/// Creates an event that reports when the peer has reached this point.
Status Peer::Mark(std::uint32_t event) {
  WEIR_TRY_STATUS(Send(wire::Marker{.enqueue = {.queue = kQueue, .event = event}}));
  return Send(wire::Watch{.event = event});
}

Status Peer::Begin(const PartProgram& program, const PartLaunch& part, const std::vector<const std::byte*>& contents,
                   Duration at_most) {
  InFlightPart mine{.half = in_flight_.empty() ? 0 : 1 - in_flight_.back().half,
                    .until_ns = platform::NowNs() + at_most.count()};
  until_ns_ = mine.until_ns;
  WEIR_TRY(mine.kernel, KernelOf(program, part.kernel));
  WEIR_TRY_STATUS(Mark(mine.marks().begun));
  WEIR_TRY_STATUS(SendSlices(mine, part, contents));
  WEIR_TRY_STATUS(Mark(mine.marks().arrived));
  WEIR_TRY_STATUS(SendArgs(mine, part));
  wire::NdRange launch{.enqueue = {.queue = kQueue, .event = mine.marks().kernel},
                       .kernel = mine.kernel->id,
                       .dimensions = static_cast<std::uint8_t>(part.dimensions),
                       .has_local = 1};
  std::ranges::copy(part.offset, launch.offset);
  std::ranges::copy(part.global, launch.global);
  std::ranges::copy(part.local, launch.local);
  WEIR_TRY_STATUS(Send(launch));
  WEIR_TRY_STATUS(Send(wire::Watch{.event = mine.marks().kernel}));
  WEIR_TRY_STATUS(SendReads(mine, part));
  mine.request = ++next_request_;
  WEIR_TRY_STATUS(Send(wire::Finish{.request = mine.request, .queue = kQueue}));
  half_is_free_ = !in_flight_.empty() || placed_ <= half_;
  in_flight_.push_back(std::move(mine));
  return Ok();
}

Status Peer::AwaitEnd(const InFlightPart& part) {
  for (auto& [number, program] : programs_) {
    if (program.build_request == 0) continue;
    WEIR_TRY_STATUS(Await(std::exchange(program.build_request, 0), "building the part's kernels"));
  }
  sources_ = 0;
  WEIR_TRY_STATUS(Await(part.request, "running a part"));
  for (const std::uint32_t event : {part.marks().begun, part.marks().arrived, part.marks().kernel})
    while (!done_.contains(event)) WEIR_TRY_STATUS(Receive());
  const std::int32_t status = done_[part.marks().kernel].status;
  if (status == CL_COMPLETE) return Ok();
  return Fail(Errc::kUnavailable, path_ + ": the part's kernel failed with error " + std::to_string(status) +
                                      (notice_.empty() ? "" : ": " + notice_));
}

/// The peer's clock gives the duration of the slices' transfer and the time of its device. The first part of a kernel
/// is ignored, because it includes the compiler's time.
void Peer::Learn(const InFlightPart& part, double device_s) {
  if (!std::exchange(part.kernel->has_run, true)) return;
  const double sent_s = SecondsOf(Duration{static_cast<std::int64_t>(done_[part.marks().arrived].queued_ns) -
                                           static_cast<std::int64_t>(done_[part.marks().begun].queued_ns)});
  if (sent_s > 0 && part.sent >= kTellingBytes)
    TakeIntoMean(bytes_per_s_, std::max(static_cast<double>(part.sent) / sent_s, kSlowest), link_measured_);
  const wire::EventDone& kernel = done_[part.marks().kernel];
  const double computed_s = SecondsOf(Duration{static_cast<std::int64_t>(kernel.end_ns - kernel.start_ns)});
  if (device_s > 0 && computed_s > 0)
    TakeIntoMean(slowness_, std::clamp(computed_s / device_s, 0.01, 100.0), device_measured_);
}

Status Peer::End(const std::vector<std::byte*>& memory, double device_s) {
  const InFlightPart part = std::move(in_flight_.front());
  in_flight_.pop_front();
  until_ns_ = part.until_ns;
  WEIR_TRY_STATUS(AwaitEnd(part));
  Learn(part, device_s);
  for (const Returned& one : part.returned) {
    const std::byte* from = connection_.arena.As<std::byte>() + one.at;
    std::byte* to = memory[one.slice] + one.extent.begin;
    for (std::uint64_t row = 0; row < one.extent.rows; ++row)
      std::memcpy(to + row * one.extent.stride, from + row * one.extent.bytes, one.extent.bytes);
  }
  for (const std::uint32_t buffer : part.buffers)
    if (std::ranges::find(held_, buffer, &Held::id) == held_.end()) WEIR_TRY_STATUS(Send(wire::Release{.id = buffer}));
  for (const std::uint32_t event : {part.marks().begun, part.marks().arrived, part.marks().kernel}) {
    done_.erase(event);
    WEIR_TRY_STATUS(Send(wire::Release{.id = event}));
  }
  return Ok();
}

Status Peer::EndLaunch() {
  held_end_ = 0;
  for (const Held& one : std::exchange(held_, {})) WEIR_TRY_STATUS(Send(wire::Release{.id = one.id}));
  return Ok();
}

}  // namespace weir::opencl
