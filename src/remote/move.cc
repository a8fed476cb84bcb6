// SPDX-License-Identifier: Apache-2.0
#include "remote/move.h"

#include <algorithm>
#include <cstring>

#include "opencl/channel/cl.h"
#include "platform/clock.h"
#include "proto/opencl_messages.h"

namespace weir::remote {
namespace {

namespace cl = proto::cl;

constexpr Duration kQuietWithin = seconds(30);  // a kernel may be running
constexpr Duration kAskAgain = milliseconds(200);
constexpr Duration kAnswerWithin = seconds(60);  // builds are among what is replayed
constexpr std::uint64_t kPlaceAlignment = 4096;
constexpr std::uint64_t kWindowBytes = 64 << 20;  // what a move keeps here at most
constexpr std::uint64_t kPartBytes = 4 << 20;

/// An event's times are of the node's clock, which is ahead of ours by so much, as far as is known. What has ended has
/// ended before we hear of it, which bounds that.
void MoveTimes(std::span<std::byte> message, std::int64_t& ahead_ns) {
  cl::EventDone done;
  if (!cl::Decode(message, done)) return;
  if (std::max({done.queued_ns, done.submit_ns, done.start_ns, done.end_ns}) > kClockMaxNs) return;
  const auto end_ns = static_cast<std::int64_t>(done.end_ns);
  if (end_ns != 0) ahead_ns = std::max(ahead_ns, end_ns - platform::NowNs());
  for (std::uint64_t* at : {&done.queued_ns, &done.submit_ns, &done.start_ns, &done.end_ns})
    if (*at != 0) *at = static_cast<std::uint64_t>(static_cast<std::int64_t>(*at) - ahead_ns);
  if (cl::SizeOf(done) == message.size()) cl::EncodeInto(done, message);
}

}  // namespace

// -- While it is followed --------------------------------------------------------------------------------------------

Status FollowedSink::Take(std::span<std::byte> message) {
  cl::Header header;
  if (!cl::ReadHeader(message, header)) return Fail(Errc::kProtocol, "a message that is none");
  {
    const std::lock_guard lock(followed_.mutex);
    if (TakeOwn(header, message)) {
      followed_.changed.notify_all();
      return Ok();
    }
    const bool own = followed_.log.IsOwn(message);
    if (!followed_.log.FromExecutor(message)) return Fail(Errc::kProtocol, "a message that no executor sends");
    followed_.changed.notify_all();
    if (own) return Ok();
    if (header.op == static_cast<std::uint16_t>(cl::Op::kEventDone)) MoveTimes(message, ahead_ns_);
  }
  return LineSink::Take(message);
}

/// Answers to a move's requests, and notices while it reads. The facts are looked at in passing.
bool FollowedSink::TakeOwn(const cl::Header& header, std::span<const std::byte> message) {
  if (header.op == static_cast<std::uint16_t>(cl::Op::kNotice)) return diverted_;
  cl::Reply reply;
  if (header.op != static_cast<std::uint16_t>(cl::Op::kReply) || !cl::Decode(message, reply)) return false;
  if (reply.request == 0 && !followed_.facts_complete) {
    followed_.facts.insert(followed_.facts.end(), reply.part.begin(), reply.part.end());
    followed_.facts_complete = reply.more == 0;
  }
  if (reply.request < kRequests || reply.request >= opencl::ObjectLog::kQuestions) return false;
  answers_[reply.request] = reply.status;
  return true;
}

Result<std::span<std::byte>> FollowedSink::Room(std::uint64_t offset, std::size_t bytes) {
  {
    const std::lock_guard lock(followed_.mutex);
    if (diverted_ && !into_.empty()) {
      if (offset < into_offset_ || offset - into_offset_ > into_.size() ||
          bytes > into_.size() - (offset - into_offset_))
        return Fail(Errc::kProtocol, "contents that nobody has asked for");
      return into_.subspan(offset - into_offset_, bytes);
    }
  }
  return LineSink::Room(offset, bytes);
}

void FollowedSink::Divert(std::uint64_t offset, std::span<std::byte> into) {
  const std::lock_guard lock(followed_.mutex);
  diverted_ = !into.empty();
  into_offset_ = offset;
  into_ = into;
}

std::optional<std::int32_t> FollowedSink::AnswerTo(std::uint32_t request, Duration timeout) {
  std::unique_lock lock(followed_.mutex);
  followed_.changed.wait_for(lock, timeout, [&] { return ended_ || answers_.contains(request); });
  const auto answer = answers_.find(request);
  if (answer == answers_.end()) return std::nullopt;
  const std::int32_t status = answer->second;
  answers_.erase(answer);
  return status;
}

void FollowedSink::Ended() {
  const std::lock_guard lock(followed_.mutex);
  ended_ = true;
  followed_.changed.notify_all();
}

// -- The move --------------------------------------------------------------------------------------------------------

namespace {

/// What a fresh executor says while objects are made on it.
class FreshSink final : public Sink {
 public:
  Status Take(std::span<std::byte> message) override {
    cl::Header header;
    cl::Reply reply;
    if (!cl::ReadHeader(message, header)) return Fail(Errc::kProtocol, "a message that is none");
    if (header.op == static_cast<std::uint16_t>(cl::Op::kNotice)) return Ok();
    if (header.op != static_cast<std::uint16_t>(cl::Op::kReply)) {
      late.emplace_back(message.begin(), message.end());
      return Ok();
    }
    if (!cl::Decode(message, reply)) return Fail(Errc::kProtocol, "a reply that is none");
    if (reply.request == 0) facts.insert(facts.end(), reply.part.begin(), reply.part.end());
    if (reply.more == 0) answers[reply.request] = reply.status;
    return Ok();
  }
  Result<std::span<std::byte>> Room(std::uint64_t, std::size_t) override {
    return Fail(Errc::kProtocol, "contents that nobody has asked for");
  }

  std::map<std::uint32_t, std::int32_t> answers;
  std::vector<std::byte> facts;
  std::vector<std::vector<std::byte>> late;
};

/// Facts that may differ from node to node without a program's noticing.
bool MayDiffer(std::uint32_t name) {
  return name == CL_DEVICE_GLOBAL_MEM_SIZE || name == CL_DEVICE_MAX_MEM_ALLOC_SIZE ||
         name == CL_DEVICE_PROFILING_TIMER_RESOLUTION;
}

Status SameDevices(std::span<const std::byte> there, std::span<const std::byte> here) {
  const auto read = [](std::span<const std::byte> body) {
    cl::PlatformFacts facts;
    cl::FieldReader reader(body);
    cl::PlatformFacts::Fields(facts, reader);
    return facts;
  };
  const cl::PlatformFacts theirs = read(there), ours = read(here);
  if (theirs.devices.size() != ours.devices.size())
    return Fail(Errc::kVersionMismatch, "the node has another number of devices");
  for (std::size_t d = 0; d < ours.devices.size(); ++d)
    for (const cl::Fact& fact : ours.devices[d].facts) {
      if (MayDiffer(fact.name)) continue;
      const auto same = std::ranges::find_if(theirs.devices[d].facts, [&](const cl::Fact& other) {
        return other.name == fact.name && other.value == fact.value;
      });
      if (same != theirs.devices[d].facts.end()) continue;
      char name[16];
      std::snprintf(name, sizeof name, "0x%04x", fact.name);
      return Fail(Errc::kVersionMismatch, std::string("the node's device is another one: clGetDeviceInfo of ") + name +
                                              " differs; programs move between devices and drivers of one kind only");
    }
  return Ok();
}

class Mover {
 public:
  Mover(Followed& followed, FollowedSink& sink, net::Stream& old_stream, net::Stream& fresh, InPump& fresh_in,
        const std::atomic<bool>& stop)
      : followed_(followed), sink_(sink), old_(old_stream), fresh_(fresh), fresh_in_(fresh_in), stop_(stop) {}

  Status AwaitQuiet();
  Status CheckDevice();
  Status Replay(std::uint64_t arena_bytes);
  Status MoveContents();
  Moved Outcome() { return {objects_, memories_, bytes_, std::move(fresh_sink_.late)}; }

 private:
  Status AwaitFresh(std::uint32_t request, std::int32_t expected, const char* what);
  Status MoveOne(const opencl::ObjectLog::Memory& memory);
  Status MoveWindow(const opencl::ObjectLog::Memory& memory, std::uint64_t at, std::uint64_t size);
  Status MoveParts(const opencl::ObjectLog::Memory& memory, std::uint64_t at, std::uint64_t size);

  Followed& followed_;
  FollowedSink& sink_;
  net::Stream& old_;
  net::Stream& fresh_;
  InPump& fresh_in_;
  const std::atomic<bool>& stop_;
  FreshSink fresh_sink_;
  std::vector<std::byte> window_;
  std::uint32_t request_ = FollowedSink::kRequests;
  std::size_t objects_ = 0, memories_ = 0;
  std::uint64_t bytes_ = 0;
};

Status Mover::AwaitQuiet() {
  const std::int64_t until = platform::NowNs() + kQuietWithin.count();
  for (;;) {
    std::vector<std::vector<std::byte>> questions;
    {
      std::unique_lock lock(followed_.mutex);
      if (followed_.log.in_flight().none()) return Ok();
      questions = followed_.log.Questions();
    }
    WEIR_TRY_STATUS(SendMessages(old_, questions, stop_));
    std::unique_lock lock(followed_.mutex);
    followed_.changed.wait_for(lock, kAskAgain, [&] { return followed_.log.in_flight().none(); });
    const auto now = followed_.log.in_flight();
    if (now.none()) return Ok();
    if (stop_.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    if (platform::NowNs() > until)
      return Fail(Errc::kTimeout,
                  std::to_string(now.commands) + " commands have not ended within " +
                      std::to_string(kQuietWithin.count() / 1'000'000'000) + " s" +
                      (now.user_events > 0 ? ", and may wait for an event that the program has not set" : ""));
  }
}

Status Mover::AwaitFresh(std::uint32_t request, std::int32_t expected, const char* what) {
  const std::int64_t until = platform::NowNs() + kAnswerWithin.count();
  while (!fresh_sink_.answers.contains(request)) {
    WEIR_TRY([[maybe_unused]] const bool some, fresh_in_.Step(fresh_sink_, milliseconds(50)));
    if (platform::NowNs() > until) return Fail(Errc::kTimeout, std::string("the new node did not answer: ") + what);
  }
  const std::int32_t status = fresh_sink_.answers[request];
  if (status == expected) return Ok();
  return Fail(Errc::kUnavailable, std::string(what) + " ended with " + std::to_string(status) +
                                      " on the new node, where it should be " + std::to_string(expected));
}

Status Mover::CheckDevice() {
  WEIR_TRY_STATUS(AwaitFresh(0, CL_SUCCESS, "the device's facts"));
  const std::lock_guard lock(followed_.mutex);
  if (!followed_.facts_complete) return Fail(Errc::kUnavailable, "the program has only just connected; try again");
  return SameDevices(fresh_sink_.facts, followed_.facts);
}

Status Mover::Replay(std::uint64_t arena_bytes) {
  // From the arena's end: what lies there in the client's own is not touched, and on the node nobody uses it yet.
  std::uint64_t room = arena_bytes / kPlaceAlignment * kPlaceAlignment;
  Status placed = Ok();
  std::optional<opencl::ObjectLog::Replay> replay;
  {
    const std::lock_guard lock(followed_.mutex);
    replay = followed_.log.MakeReplay([&](cl::ByteView bytes) -> std::optional<cl::Blob> {
      const std::uint64_t takes = (bytes.size() + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
      if (takes > room || !placed) return std::nullopt;
      room -= takes;
      placed = SendContents(fresh_, room, bytes, stop_);
      return cl::Blob::Arena(room, bytes.size());
    });
  }
  WEIR_TRY_STATUS(placed);
  if (!replay) return Fail(Errc::kResourceExhausted, "there is no room to make the program's objects anew");
  objects_ = replay->messages.size();
  WEIR_TRY_STATUS(SendMessages(fresh_, replay->messages, stop_));
  for (const auto& answer : replay->answers) WEIR_TRY_STATUS(AwaitFresh(answer.request, answer.status, "a build"));
  return Ok();
}

Status Mover::MoveOne(const opencl::ObjectLog::Memory& memory) {
  constexpr std::uint64_t kNoHost = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY;
  if (memory.image) return Fail(Errc::kInvalidArgument, "it has images, which are not moved yet");
  if (memory.queue == 0) return Fail(Errc::kInvalidArgument, "a buffer's context has no queue to read it by");
  if ((memory.flags & kNoHost) != 0) return Fail(Errc::kInvalidArgument, "a buffer forbids the host to read or write");
  for (std::uint64_t at = 0; at < memory.size; at += kWindowBytes)
    WEIR_TRY_STATUS(MoveWindow(memory, at, std::min(kWindowBytes, memory.size - at)));
  const std::uint32_t request = request_++;
  const std::vector<std::vector<std::byte>> finish{cl::Encode(cl::Finish{.request = request, .queue = memory.queue})};
  WEIR_TRY_STATUS(SendMessages(fresh_, finish, stop_));
  WEIR_TRY_STATUS(AwaitFresh(request, CL_SUCCESS, "writing a buffer"));
  ++memories_;
  bytes_ += memory.size;
  return Ok();
}

/// Reads ahead by all of the window while its first parts are on their way to the new node.
Status Mover::MoveWindow(const opencl::ObjectLog::Memory& memory, std::uint64_t at, std::uint64_t size) {
  window_.resize(size);
  sink_.Divert(memory.arena_offset + at, window_);
  const Status moved = MoveParts(memory, at, size);
  sink_.DivertNothing();
  if (!moved) return moved;
  const std::vector<std::vector<std::byte>> write{
      cl::Encode(cl::WriteBuffer{.enqueue = {.queue = memory.queue},
                                 .buffer = memory.id,
                                 .offset = at,
                                 .content = cl::Blob::Arena(memory.arena_offset + at, size)})};
  return SendMessages(fresh_, write, stop_);
}

Status Mover::MoveParts(const opencl::ObjectLog::Memory& memory, std::uint64_t at, std::uint64_t size) {
  std::vector<std::vector<std::byte>> reads;
  const std::uint32_t first = request_;
  for (std::uint64_t part = 0; part < size; part += kPartBytes) {
    reads.push_back(cl::Encode(cl::ReadBuffer{.enqueue = {.queue = memory.queue},
                                              .buffer = memory.id,
                                              .offset = at + part,
                                              .size = std::min(kPartBytes, size - part),
                                              .to = memory.arena_offset + at + part}));
    reads.push_back(cl::Encode(cl::Finish{.request = request_++, .queue = memory.queue}));
  }
  WEIR_TRY_STATUS(SendMessages(old_, reads, stop_));
  for (std::uint64_t part = 0; part < size; part += kPartBytes) {
    const auto status = sink_.AnswerTo(first + static_cast<std::uint32_t>(part / kPartBytes), kAnswerWithin);
    if (!status) return Fail(Errc::kTimeout, "the old node did not answer");
    if (*status != CL_SUCCESS)
      return Fail(Errc::kUnavailable, "reading a buffer ended with " + std::to_string(*status));
    const std::uint64_t bytes = std::min(kPartBytes, size - part);
    WEIR_TRY_STATUS(SendContents(fresh_, memory.arena_offset + at + part,
                                 std::span<const std::byte>(window_).subspan(part, bytes), stop_));
  }
  return Ok();
}

Status Mover::MoveContents() {
  std::vector<opencl::ObjectLog::Memory> memories;
  {
    const std::lock_guard lock(followed_.mutex);
    memories = followed_.log.memories();
  }
  for (const auto& memory : memories)
    if (memory.must_move()) WEIR_TRY_STATUS(MoveOne(memory));
  return Ok();
}

}  // namespace

Result<Moved> MoveObjects(Followed& followed, FollowedSink& sink, net::Stream& old_stream, net::Stream& fresh,
                          InPump& fresh_in, const Entry& entry, std::uint64_t arena_bytes,
                          const std::atomic<bool>& stop) {
  if (entry.arena_bytes < arena_bytes)
    return Fail(Errc::kResourceExhausted, "the new node's vGPU has " + std::to_string(entry.arena_bytes >> 20) +
                                              " MiB of memory, and the program was shown " +
                                              std::to_string(arena_bytes >> 20));
  Mover mover(followed, sink, old_stream, fresh, fresh_in, stop);
  WEIR_TRY_STATUS(mover.CheckDevice());
  WEIR_TRY_STATUS(mover.AwaitQuiet());
  WEIR_TRY_STATUS(mover.Replay(arena_bytes));
  WEIR_TRY_STATUS(mover.MoveContents());
  return mover.Outcome();
}

}  // namespace weir::remote
