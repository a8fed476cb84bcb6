// SPDX-License-Identifier: Apache-2.0
#include "remote/pump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "platform/clock.h"
#include "proto/opencl_arena.h"

namespace weir::remote {
namespace {

namespace wire = proto::net;
namespace cl = proto::cl;

constexpr Duration kLook = milliseconds(50);  // interval at which the other sides are checked
/// Limit of frames in one send; each takes two parts.
constexpr std::size_t kFramesMax = 256;
/// A send begins when this much is gathered.
constexpr std::size_t kEnoughBytes = 4 << 20;
/// Limit of the message that the log of a followed connection may insert before another one.
constexpr std::size_t kAheadBytesMax = 256;
/// Contents of this size are worth a system call of their own that avoids the copy.
constexpr std::size_t kUncopiedFrom = 128 << 10;
/// Limit of the first read. A longer read could take in contents, which would then be copied twice.
constexpr std::size_t kFirstBytes = 32 << 10;
/// Size of the receive buffer. Contents that are larger go directly to the arena.
constexpr std::size_t kBufferBytes = wire::kMessagesBytesMax + wire::kFrameHeaderBytes + (64 << 10);

bool Inside(std::uint64_t offset, std::uint64_t size, const platform::Mapping& memory) {
  return offset <= memory.bytes() && size <= memory.bytes() - offset;
}

Error OutsideArena(std::uint64_t offset, std::uint64_t size, std::uint64_t arena) {
  return Fail(Errc::kProtocol, "bytes " + std::to_string(offset) + " and " + std::to_string(size) +
                                   " on are named, of an arena of " + std::to_string(arena));
}

/// Sends everything, and adds the bytes to `taken`, if it is not null. Returns the number of sends. kTimeout: the other
/// side has taken nothing for `within`.
Result<std::uint64_t> SendParts(net::Stream& stream, std::span<iovec> left, const std::atomic<bool>& stop,
                                Duration within, std::atomic<std::uint64_t>* taken = nullptr) {
  std::uint64_t sends = 0;
  std::optional<Instant> stalled;
  while (!left.empty()) {
    WEIR_TRY(std::size_t sent, stream.TrySend(left));
    ++sends;
    if (sent == 0) {
      if (stop.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
      const Instant now = platform::Now();
      if (!stalled) stalled = now;
      if (now - *stalled >= within)
        return Fail(Errc::kTimeout, fmt::format("{} has read nothing for {:g} s", stream.peer(), SecondsOf(within)));
      stream.AwaitSend(kLook);
      continue;
    }
    stalled.reset();
    if (taken != nullptr) taken->fetch_add(sent, std::memory_order_relaxed);
    while (!left.empty() && sent >= left.front().iov_len) {
      sent -= left.front().iov_len;
      left = left.subspan(1);
    }
    if (sent > 0) {
      left.front().iov_base = static_cast<std::byte*>(left.front().iov_base) + sent;
      left.front().iov_len -= sent;
    }
  }
  return sends;
}

}  // namespace

// -- Out -------------------------------------------------------------------------------------------------------------

OutPump::OutPump(Line& line, net::Stream& stream, Side side, Followed* followed)
    : line_(line),
      stream_(stream),
      side_(side),
      followed_(followed),
      messages_(wire::kMessagesBytesMax),
      passing_(line.awake) {
  headers_.reserve(kFramesMax + 1);
  parts_.reserve(2 * kFramesMax + 2);
}

Status OutPump::Run(const std::function<bool()>& alive, const std::function<void()>& between) {
  while (!line_.stop.load(std::memory_order_relaxed)) {
    if (between && line_.knock.exchange(false)) between();
    if (line_.hold.load(std::memory_order_relaxed)) return Ok();
    WEIR_TRY(const bool some, Gather());
    if (some) {
      WEIR_TRY_STATUS(Send());
      continue;
    }
    if (line_.channel.in.Wait(kLook)) continue;
    if (!alive()) {
      WEIR_TRY(const bool last, Gather());  // the other side may have written and gone between the two checks
      if (!last) break;
      WEIR_TRY_STATUS(Send());
    }
  }
  return Ok();
}

Result<bool> OutPump::Gather() {
  const std::uint64_t before = traffic_.arena_bytes;
  headers_.clear();
  parts_.clear();
  used_ = framed_ = 0;
  while (used_ + cl::kMessageBytesMax + kAheadBytesMax <= messages_.size() && headers_.size() + 2 < kFramesMax &&
         traffic_.arena_bytes - before < kEnoughBytes) {
    WEIR_TRY(std::span<const std::byte> message,
             line_.channel.in.Next(std::span(messages_).subspan(used_, cl::kMessageBytesMax)));
    if (message.empty()) break;
    if (followed_ != nullptr) WEIR_TRY_STATUS(Follow(message));
    bool passed_on = true;
    WEIR_TRY_STATUS(Note(message, passed_on));
    if (!passed_on) continue;
    const std::size_t padded = cl::Padded(message.size());
    std::memset(messages_.data() + used_ + message.size(), 0, padded - message.size());
    used_ += padded;
    ++traffic_.messages;
  }
  CloseMessages();
  return !parts_.empty();
}

/// Records the message in the log. If the log requests that another message be sent first, that one is placed before
/// this one, which moves up in the buffer.
Status OutPump::Follow(std::span<const std::byte>& message) {
  const std::lock_guard lock(followed_->mutex);
  const std::optional<std::vector<std::byte>> ahead = followed_->log.Ahead(message);
  if (ahead && cl::Padded(ahead->size()) <= kAheadBytesMax) {
    const std::size_t bytes = cl::Padded(ahead->size());
    // Gather leaves room for both; this is checked again because a copy follows.
    if (used_ + bytes + cl::Padded(message.size()) > messages_.size())
      return Fail(Errc::kProtocol, "a message that is too long");
    std::byte* at = messages_.data() + used_;
    std::memmove(at + bytes, at, message.size());
    std::memset(at, 0, bytes);
    std::memcpy(at, ahead->data(), ahead->size());
    used_ += bytes;
    message = {at + bytes, message.size()};
  }
  return followed_->log.FromClient(message) ? Ok() : Fail(Errc::kProtocol, "a malformed message");
}

Status OutPump::Note(std::span<const std::byte> message, bool& passed_on) {
  Status status = Ok();
  if (side_ == Side::kClients) {
    const bool good = cl::ForEachArenaRange(message, [&](std::uint64_t offset, std::uint64_t size) {
      if (status) status = AddArena(offset, size);
    });
    if (!good) return Fail(Errc::kProtocol, "a malformed message");
    return status;
  }
  cl::Header header;
  if (!cl::ReadHeader(message, header) || header.op != cl::Arrived::kOp) return Ok();
  cl::Arrived arrived;
  if (!cl::Decode(message, arrived)) return Fail(Errc::kProtocol, "a malformed Arrived");
  passed_on = false;
  // The contents are sent after the messages before them, which may allow the client to read other parts of the arena.
  CloseMessages();
  if (arrived.size == 0) return Ok();
  return arrived.in_buffers != 0 ? AddContents(line_.buffers, arrived.from, arrived.offset, arrived.size)
                                 : AddArena(arrived.offset, arrived.size);
}

/// Adds frames that copy `size` bytes of `memory` to offset `to` of the other side's arena. Each frame is within the
/// receiver's limit.
Status OutPump::AddContents(const platform::Mapping& memory, std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  if (!Inside(from, size, memory)) return OutsideArena(from, size, memory.bytes());
  if (!Inside(to, size, line_.arena)) return OutsideArena(to, size, line_.arena.bytes());
  while (size > 0) {
    if (headers_.size() + 2 >= kFramesMax) WEIR_TRY_STATUS(Send());
    const std::uint64_t chunk = std::min<std::uint64_t>(size, wire::kArenaBytesMax);
    headers_.push_back({.bytes = static_cast<std::uint32_t>(chunk),
                        .kind = static_cast<std::uint16_t>(wire::Kind::kArena),
                        .offset = to});
    parts_.push_back({&headers_.back(), sizeof(wire::FrameHeader)});
    parts_.push_back({memory.As<std::byte>() + from, chunk});
    traffic_.arena_bytes += chunk;
    from += chunk;
    to += chunk;
    size -= chunk;
  }
  return Ok();
}

void OutPump::CloseMessages() {
  if (used_ == framed_) return;
  headers_.push_back({.bytes = static_cast<std::uint32_t>(used_ - framed_),
                      .kind = static_cast<std::uint16_t>(wire::Kind::kMessages)});
  parts_.push_back({&headers_.back(), sizeof(wire::FrameHeader)});
  parts_.push_back({messages_.data() + framed_, used_ - framed_});
  framed_ = used_;
}

const platform::Fd* OutPump::FileOf(const iovec& part, std::uint64_t& offset) const {
  if (part.iov_len < kUncopiedFrom || !stream_.sends_files()) return nullptr;
  const auto within = [&](const platform::Mapping& memory, const platform::Fd& file) {
    const auto* const at = static_cast<const std::byte*>(part.iov_base);
    const auto* const first = memory.As<const std::byte>();
    if (!file || at < first || at >= first + memory.bytes()) return false;
    offset = static_cast<std::uint64_t>(at - first);
    return true;
  };
  if (within(line_.arena, line_.arena_file)) return &line_.arena_file;
  return within(line_.buffers, line_.buffers_file) ? &line_.buffers_file : nullptr;
}

/// Sends the memory's pages themselves. The process that placed the contents leaves them unchanged until the executor
/// has reported that it has read them, or until the message about the end of the read has arrived after them.
Status OutPump::SendUncopied(const platform::Fd& file, std::uint64_t offset, const iovec& part) {
  for (std::size_t left = part.iov_len; left > 0;) {
    WEIR_TRY(const std::size_t sent, stream_.TrySendFile(file.get(), offset, left));
    line_.sent.fetch_add(sent, std::memory_order_relaxed);
    ++traffic_.sends;
    traffic_.uncopied_bytes += sent;
    offset += sent;
    left -= sent;
    if (sent > 0) continue;
    if (line_.stop.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    stream_.AwaitSend(kLook);
  }
  return Ok();
}

Status OutPump::Send() {
  traffic_.frames += headers_.size();
  for (std::span<iovec> left = parts_; !left.empty();) {
    std::size_t copied = 0;
    std::uint64_t offset = 0;
    const platform::Fd* file = nullptr;
    while (copied < left.size() && (file = FileOf(left[copied], offset)) == nullptr) ++copied;
    if (copied > 0) {
      WEIR_TRY(const std::uint64_t sends,
               SendParts(stream_, left.first(copied), line_.stop, Duration::max(), &line_.sent));
      traffic_.sends += sends;
    } else {
      WEIR_TRY_STATUS(SendUncopied(*file, offset, left.front()));
      copied = 1;
    }
    left = left.subspan(copied);
  }
  headers_.clear();
  parts_.clear();
  passing_.Now();
  return Ok();
}

Status SendMessages(net::Stream& stream, std::span<const std::vector<std::byte>> messages,
                    const std::atomic<bool>& stop, Duration within) {
  std::vector<std::byte> frame;
  const auto send = [&]() -> Status {
    if (frame.empty()) return Ok();
    wire::FrameHeader header{.bytes = static_cast<std::uint32_t>(frame.size()),
                             .kind = static_cast<std::uint16_t>(wire::Kind::kMessages)};
    iovec parts[] = {{&header, sizeof header}, {frame.data(), frame.size()}};
    WEIR_TRY_STATUS(SendParts(stream, parts, stop, within));
    frame.clear();
    return Ok();
  };
  for (const std::vector<std::byte>& message : messages) {
    if (frame.size() + cl::Padded(message.size()) > wire::kMessagesBytesMax) WEIR_TRY_STATUS(send());
    frame.insert(frame.end(), message.begin(), message.end());
    frame.resize(cl::Padded(frame.size()));
  }
  return send();
}

Status SendContents(net::Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes,
                    const std::atomic<bool>& stop, Duration within) {
  while (!bytes.empty()) {
    const std::size_t chunk = std::min(bytes.size(), wire::kArenaBytesMax);
    wire::FrameHeader header{.bytes = static_cast<std::uint32_t>(chunk),
                             .kind = static_cast<std::uint16_t>(wire::Kind::kArena),
                             .offset = offset};
    iovec parts[] = {{&header, sizeof header}, {const_cast<std::byte*>(bytes.data()), chunk}};
    WEIR_TRY_STATUS(SendParts(stream, parts, stop, within));
    bytes = bytes.subspan(chunk);
    offset += chunk;
  }
  return Ok();
}

Status SendMoveWanted(net::Stream& stream, std::string_view why, const std::atomic<bool>& stop) {
  std::vector<std::byte> bytes = cl::Encode(wire::MoveWanted{.wanted = static_cast<std::uint16_t>(why.empty() ? 0 : 1),
                                                             .why = why.substr(0, wire::kWhyBytesMax)});
  wire::FrameHeader header{.bytes = static_cast<std::uint32_t>(bytes.size()),
                           .kind = static_cast<std::uint16_t>(wire::Kind::kMoveWanted)};
  iovec parts[] = {{&header, sizeof header}, {bytes.data(), bytes.size()}};
  WEIR_TRY_STATUS(SendParts(stream, parts, stop, Duration::max()));
  return Ok();
}

// -- In --------------------------------------------------------------------------------------------------------------

InPump::InPump(const std::atomic<bool>& stop, net::Stream& stream, KeepAwake* awake)
    : stop_(stop), stream_(stream), buffer_(kBufferBytes), passing_(awake) {}

/// Receives until `wanted` bytes are in the buffer.
Status InPump::Fill(std::size_t wanted) {
  if (buffer_.size() - begin_ < wanted || begin_ == end_) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  while (end_ - begin_ < wanted) {
    if (stop_.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    WEIR_TRY(const std::size_t came, stream_.TryReceive(std::span(buffer_).subspan(end_)));
    end_ += came;
    if (came == 0) stream_.AwaitReceive(kLook);
  }
  return Ok();
}

Status InPump::Run(Sink& sink) {
  for (;;) WEIR_TRY_STATUS(Step(sink, kLook));
}

Result<bool> InPump::Step(Sink& sink, Duration timeout) {
  if (begin_ == end_) {
    if (stop_.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    begin_ = end_ = 0;
    const std::span<std::byte> first = std::span(buffer_).first(kFirstBytes);
    WEIR_TRY(end_, stream_.TryReceive(first));
    if (end_ == 0) {
      stream_.AwaitReceive(timeout);
      WEIR_TRY(end_, stream_.TryReceive(first));
      if (end_ == 0) return false;
    }
    passing_.Now();
  }
  WEIR_TRY_STATUS(Fill(wire::kFrameHeaderBytes));
  wire::FrameHeader header;
  std::memcpy(&header, buffer_.data() + begin_, sizeof header);
  begin_ += sizeof header;
  const auto kind = static_cast<wire::Kind>(header.kind);
  if (!wire::Plausible(header) || kind == wire::Kind::kHello || kind == wire::Kind::kWelcome)
    return Fail(Errc::kProtocol, "the data is not a frame");
  ++traffic_.frames;
  if (kind == wire::Kind::kMoveWanted) {
    WEIR_TRY_STATUS(TakeMoveWanted(sink, header.bytes));
    return true;
  }
  WEIR_TRY_STATUS(kind == wire::Kind::kMessages ? TakeMessages(sink, header.bytes)
                                                : TakeArena(sink, header.offset, header.bytes));
  return true;
}

Status InPump::TakeMessages(Sink& sink, std::size_t bytes) {
  WEIR_TRY_STATUS(Fill(bytes));
  const std::span<std::byte> frame = std::span(buffer_).subspan(begin_, bytes);
  begin_ += bytes;
  std::size_t at = 0;
  while (at < frame.size()) {
    cl::Header header;
    if (!cl::ReadHeader(frame.subspan(at), header) || header.size > cl::kMessageBytesMax ||
        cl::Padded(header.size) > frame.size() - at)
      return Fail(Errc::kProtocol, "a malformed message");
    ++traffic_.messages;
    WEIR_TRY_STATUS(sink.Take(frame.subspan(at, header.size)));
    at += cl::Padded(header.size);
  }
  sink.Taken();
  return Ok();
}

Status InPump::TakeArena(Sink& sink, std::uint64_t offset, std::size_t bytes) {
  traffic_.arena_bytes += bytes;
  WEIR_TRY(std::span<std::byte> to, sink.Room(offset, bytes));
  const std::size_t there = std::min(end_ - begin_, to.size());
  std::memcpy(to.data(), buffer_.data() + begin_, there);
  begin_ += there;
  to = to.subspan(there);
  while (!to.empty()) {
    if (stop_.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    WEIR_TRY(const std::size_t came, stream_.TryReceive(to));
    to = to.subspan(came);
    if (came == 0) stream_.AwaitReceive(kLook);
  }
  return Ok();
}

/// The text comes from another machine and is printed on a terminal, so only printable characters are kept.
Status InPump::TakeMoveWanted(Sink& sink, std::size_t bytes) {
  WEIR_TRY_STATUS(Fill(bytes));
  const std::span<const std::byte> message = std::span(buffer_).subspan(begin_, bytes);
  begin_ += bytes;
  cl::Header header;
  wire::MoveWanted asked;
  if (!cl::ReadHeader(message, header) || header.size != bytes || header.op != wire::MoveWanted::kOp ||
      !cl::Decode(message, asked))
    return Fail(Errc::kProtocol, "the data is not a frame");
  std::string why(asked.why.substr(0, wire::kWhyBytesMax));
  for (char& c : why)
    if (c < ' ' || c > '~') c = '?';
  if (asked.wanted == 0) why.clear();
  return sink.MoveWanted(asked.wanted != 0 && why.empty() ? "it gives no reason" : why);
}

Status Sink::MoveWanted(const std::string&) { return Fail(Errc::kProtocol, "only a node may send a drain request"); }

Status LineSink::Take(std::span<std::byte> message) {
  opencl::RingProducer& ring = line_.channel.out;
  std::byte* at = ring.Reserve(message.size());
  while (at == nullptr) {
    if (ring.broken()) return Fail(Errc::kProtocol, "the ring's other side wrote a position that can't be");
    if (line_.stop.load(std::memory_order_relaxed)) return Fail(Errc::kUnavailable, "the connection was ended");
    ring.WaitForRoom(message.size(), kLook);
    at = ring.Reserve(message.size());
  }
  std::memcpy(at, message.data(), message.size());
  ring.Publish(message.size());
  to_tell_ = true;
  return Ok();
}

void LineSink::Taken() {
  if (std::exchange(to_tell_, false)) line_.channel.out.Ring();
}

Result<std::span<std::byte>> LineSink::Room(std::uint64_t offset, std::size_t bytes) {
  const std::uint64_t arena = line_.arena.bytes();
  if (offset > arena || bytes > arena - offset) return OutsideArena(offset, bytes, arena);
  return std::span(line_.arena.As<std::byte>() + offset, bytes);
}

}  // namespace weir::remote
