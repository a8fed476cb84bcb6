// SPDX-License-Identifier: Apache-2.0
#include "remote/handshake.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/printable.h"
#include "platform/clock.h"
#include "proto/network_frames.h"

namespace weir::remote {
namespace {

namespace wire = proto::net;
namespace cl = proto::cl;

constexpr std::size_t kTextBytesMax = 255;
constexpr Duration kRefuseWithin = seconds(2);

template <typename M>
Status SendFrame(net::Stream& stream, wire::Kind kind, const M& message, Duration timeout) {
  const std::size_t bytes = cl::SizeOf(message);
  std::vector<std::byte> frame(wire::kFrameHeaderBytes + bytes);
  const wire::FrameHeader header{.bytes = static_cast<std::uint32_t>(bytes), .kind = static_cast<std::uint16_t>(kind)};
  std::memcpy(frame.data(), &header, sizeof header);
  cl::EncodeInto(message, std::span(frame).subspan(wire::kFrameHeaderBytes));
  return net::SendAll(stream, frame, timeout);
}

/// The views in `message` point into `bytes`. `within`: for the whole frame, so that a peer that sends a byte now and
/// then holds no place for longer.
template <typename M>
Status ReceiveFrame(net::Stream& stream, wire::Kind kind, std::vector<std::byte>& bytes, M& message, Duration within) {
  const Instant begin = platform::Now();
  wire::FrameHeader header;
  WEIR_TRY_STATUS(net::ReceiveAll(stream, std::as_writable_bytes(std::span(&header, 1)), within, within));
  if (!wire::Plausible(header) || static_cast<wire::Kind>(header.kind) != kind)
    return Fail(Errc::kProtocol, stream.peer() + ": the data is not a handshake of Weir's");
  bytes.resize(header.bytes);
  const Duration left = std::max(within - (platform::Now() - begin), Duration::zero());
  WEIR_TRY_STATUS(net::ReceiveAll(stream, bytes, left, left));
  cl::Header inner;
  if (!cl::ReadHeader(bytes, inner) || inner.size != bytes.size() || inner.op != M::kOp ||
      !cl::Decode(bytes, message) || message.magic != wire::kMagic)
    return Fail(Errc::kProtocol, stream.peer() + ": the data is not a handshake of Weir's");
  return Ok();
}

}  // namespace

Result<Greeting> ReceiveHello(net::Stream& stream, Duration within) {
  std::vector<std::byte> bytes;
  wire::Hello hello;
  WEIR_TRY_STATUS(ReceiveFrame(stream, wire::Kind::kHello, bytes, hello, within));
  if (hello.version == 0) return Fail(Errc::kVersionMismatch, stream.peer() + ": a Hello of version 0");
  return Greeting{.vgpu = std::string(hello.vgpu.substr(0, kTextBytesMax)),
                  .program = Printable(hello.program.substr(0, kTextBytesMax)),
                  .version = hello.version};
}

void Refuse(net::Stream& stream, const std::string& why) {
  const std::string_view words = std::string_view(why).substr(0, 3 * kTextBytesMax);
  // Errors are ignored: a peer that has closed the connection needs no reason.
  static_cast<void>(
      SendFrame(stream, wire::Kind::kWelcome, wire::Welcome{.magic = wire::kMagic, .refusal = words}, kRefuseWithin));
}

Status SendWelcome(net::Stream& stream, const std::string& vgpu, NodeArena arena, std::int64_t came_ns) {
  return SendFrame(stream, wire::Kind::kWelcome,
                   wire::Welcome{.magic = wire::kMagic,
                                 .version = wire::kVersion,
                                 .arena_bytes = arena.bytes,
                                 .hello_came_ns = static_cast<std::uint64_t>(came_ns),
                                 .sent_ns = static_cast<std::uint64_t>(platform::NowNs()),
                                 .vgpu = std::string_view(vgpu).substr(0, kTextBytesMax),
                                 .staging_bytes = arena.staging},
                   kHelloWithin);
}

Result<Entry> Enter(net::Stream& stream, const Greeting& greeting) {
  const std::int64_t sent_ns = platform::NowNs();
  WEIR_TRY_STATUS(SendFrame(stream, wire::Kind::kHello,
                            wire::Hello{.magic = wire::kMagic,
                                        .version = wire::kVersion,
                                        .vgpu = std::string_view(greeting.vgpu).substr(0, kTextBytesMax),
                                        .program = std::string_view(greeting.program).substr(0, kTextBytesMax)},
                            kHelloWithin));
  std::vector<std::byte> bytes;
  wire::Welcome welcome;
  if (Status received = ReceiveFrame(stream, wire::Kind::kWelcome, bytes, welcome, kWelcomeWithin); !received) {
    Error error = received.error();
    if (error.code == Errc::kUnavailable && stream.peer_name().empty())
      error.message += ", before it answered; is it a port with TLS, for --token?";
    return error;
  }
  const std::int64_t came_ns = platform::NowNs();
  if (!welcome.refusal.empty()) return Fail(Errc::kPermissionDenied, Printable(welcome.refusal));
  if (welcome.version == 0)
    return Fail(Errc::kVersionMismatch, stream.peer() + ": a node of another version; update one of the two");
  if (welcome.hello_came_ns > welcome.sent_ns || welcome.sent_ns > kClockMaxNs)
    return Fail(Errc::kProtocol, stream.peer() + " reports impossible times");
  if (welcome.staging_bytes > welcome.arena_bytes)
    return Fail(Errc::kProtocol, stream.peer() + " reports an impossible arena");
  const auto node_came = static_cast<std::int64_t>(welcome.hello_came_ns);
  const auto node_sent = static_cast<std::int64_t>(welcome.sent_ns);
  // As in NTP (RFC 5905, section 8): the node's processing time is not part of the round trip.
  return Entry{.vgpu = std::string(welcome.vgpu),
               .arena = {.bytes = welcome.arena_bytes, .staging = welcome.staging_bytes},
               .ahead_ns = ((node_came - sent_ns) + (node_sent - came_ns)) / 2,
               .round_trip_ns = (came_ns - sent_ns) - (node_sent - node_came)};
}

}  // namespace weir::remote
