// SPDX-License-Identifier: Apache-2.0
// How a client and an executor meet: one packet each way on a socket that then only tells that the other still lives.
#pragma once

#include <string>

#include "opencl/channel/ring.h"
#include "platform/unix_socket.h"

namespace weir::opencl {

inline constexpr Duration kHandshakeWait = seconds(10);  // an executor has to be started, and it loads a compiler

/// What an executor calls itself where it has parts of its clients' launches run, and the daemon's relays for it: what
/// comes from there is not cut among others again.
inline constexpr const char* kPartsProgram = "weir-parts";

/// The client's side of a connection.
struct Connection {
  platform::Fd socket;
  Channel channel;
  platform::Mapping arena;
  platform::Fd arena_file;    // what is mapped there; of a `distant` connection
  platform::Mapping buffers;  // of a `distant` one whose device works in host memory: its buffers lie there
  platform::Fd buffers_file;
  std::uint16_t version = 0;  // that both speak
};
/// Errors: kNotFound and kUnavailable when nobody listens, kTimeout, kPermissionDenied with the executor's words,
/// kVersionMismatch, kProtocol. `distant`: the arena is copied to another machine, and what is new in it is to be told.
Result<Connection> Connect(const std::string& path, const std::string& program, bool distant = false);

/// The executor's side.
struct Accepted {
  platform::Fd socket;
  platform::Peer peer;
  std::string program;  // as the client says
  std::uint16_t version = 0;
  bool distant = false;
  Channel channel;
  platform::Mapping arena;
  platform::Fd arena_file;    // what is mapped there
  platform::Mapping buffers;  // of a distant client, where the device works in host memory
};
/// Reads the Hello of a connection and answers it; makes an arena of `arena_bytes`, and for a distant client
/// kSpareBytes more and, with `in_host_memory`, memory for its buffers. `owner`: who may connect, beside root.
Result<Accepted> Welcome(platform::Fd connection, uid_t owner, std::uint64_t arena_bytes, bool in_host_memory);

/// False once the other side has closed, or sent something: nothing is sent after the handshake.
bool StillConnected(int socket);

}  // namespace weir::opencl
