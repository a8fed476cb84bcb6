// SPDX-License-Identifier: Apache-2.0
// How a relay and a portal meet: a Hello, and a Welcome or a refusal.
#pragma once

#include <string>

#include "net/stream.h"

namespace weir::remote {

inline constexpr Duration kHelloWithin = seconds(10);
/// An executor has to be started, and it loads a compiler.
inline constexpr Duration kWelcomeWithin = seconds(20);

/// What a clock that began with its machine never shows (36 years): sums and differences of less can't overflow.
inline constexpr std::uint64_t kClockMaxNs = 1ULL << 60;

struct Greeting {
  std::string vgpu, program;
  std::uint16_t version = 0;  // that the relay speaks; not told by one
};
/// What a portal reads first. kProtocol: no Hello. kVersionMismatch: of a version that can't be spoken.
Result<Greeting> ReceiveHello(net::Stream& stream);
/// Tells why there is no connection.
void Refuse(net::Stream& stream, const std::string& why);
/// `came_ns`: when the Hello did.
Status SendWelcome(net::Stream& stream, const std::string& vgpu, std::uint64_t arena_bytes, std::int64_t came_ns);

struct Entry {
  std::string vgpu;  // as the node says
  std::uint64_t arena_bytes = 0;
  std::int64_t ahead_ns = 0;  // the node's clock less ours
  std::int64_t round_trip_ns = 0;
};
/// A relay's side. kPermissionDenied with the node's words; kTimeout, kProtocol, kVersionMismatch, kUnavailable.
Result<Entry> Enter(net::Stream& stream, const Greeting& greeting);

}  // namespace weir::remote
