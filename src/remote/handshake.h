// SPDX-License-Identifier: Apache-2.0
// The handshake of a relay and a portal: a Hello, answered by a Welcome or a refusal.
#pragma once

#include <string>

#include "net/stream.h"

namespace weir::remote {

inline constexpr Duration kHelloWithin = seconds(10);
/// Long, because the portal may have to start an executor, which loads a compiler.
inline constexpr Duration kWelcomeWithin = seconds(20);

/// Upper bound of plausible clock values (36 years since boot). Sums and differences of smaller values cannot overflow.
inline constexpr std::uint64_t kClockMaxNs = 1ULL << 60;

struct Greeting {
  std::string vgpu, program;
  std::uint16_t version = 0;  // the relay's protocol version; unused when a relay sends its Greeting
};
/// Receives the Hello, all of it `within` this time. kTimeout; kProtocol: malformed; kVersionMismatch: unsupported
/// version.
Result<Greeting> ReceiveHello(net::Stream& stream, Duration within = kHelloWithin);
/// Sends the reason why the connection is refused.
void Refuse(net::Stream& stream, const std::string& why);
/// `came_ns`: when the Hello arrived.
struct NodeArena {
  std::uint64_t bytes = 0;    // all of it
  std::uint64_t staging = 0;  // part of it in which buffers don't lie
};
Status SendWelcome(net::Stream& stream, const std::string& vgpu, NodeArena arena, std::int64_t came_ns);

struct Entry {
  std::string vgpu;  // as the node reports it
  NodeArena arena;
  std::int64_t ahead_ns = 0;  // the node's clock minus this machine's
  std::int64_t round_trip_ns = 0;
};
/// The relay's side of the handshake. kPermissionDenied carries the node's reason. Other errors: kTimeout, kProtocol,
/// kVersionMismatch, kUnavailable.
Result<Entry> Enter(net::Stream& stream, const Greeting& greeting);

}  // namespace weir::remote
