// SPDX-License-Identifier: Apache-2.0
// The handshake of a client and an executor: one packet in each direction on a socket. Afterwards the socket only shows
// whether the other side still lives.
#pragma once

#include <string>
#include <vector>

#include "opencl/channel/ring.h"
#include "platform/unix_socket.h"

namespace weir::opencl {

// Long, because an executor may have to start and load a compiler on a machine that is busy with other work.
inline constexpr Duration kHandshakeWait = seconds(60);

/// The program name that an executor uses when it sends parts of its clients' launches to other executors; the daemon's
/// relays use it on its behalf. Launches from a client of this name are not divided among other executors again.
inline constexpr const char* kPartsProgram = "weir-parts";

/// The client's side of a connection.
struct Connection {
  platform::Fd socket;
  Channel channel;
  platform::Mapping arena;
  std::uint64_t staging_bytes = 0;  // the end of the arena in which buffers don't lie
  platform::Fd arena_file;          // the file that is mapped at `arena`; only of a `remote` connection
  // The device's buffers; only of a `remote` connection to a device that works in host memory.
  platform::Mapping buffers;
  platform::Fd buffers_file;
  std::uint16_t version = 0;  // the version that both sides speak
};
/// Connects again when an executor ends before it replies. Errors: kNotFound and kUnavailable, nothing listens;
/// kTimeout; kPermissionDenied with the executor's reason; kVersionMismatch; kProtocol; kIo. `remote`: the arena is
/// copied to another machine, so that the executor must report what it writes to it.
Result<Connection> Connect(const std::string& path, const std::string& program, bool remote = false);

/// The users whom a vGPU's executor serves: its owner, root, the executor's own user, which a host of modules has, and
/// portals that have users of their own.
struct Clients {
  uid_t owner = 0;
  std::vector<uid_t> portals{};
  [[nodiscard]] bool Include(uid_t user) const;
};

/// The executor's side.
struct Accepted {
  platform::Fd socket;
  platform::Peer peer;
  std::string program;  // as the client reports it
  std::uint16_t version = 0;
  bool remote = false;
  Channel channel;
  platform::Mapping arena;
  platform::Fd arena_file;    // the file that is mapped at `arena`
  platform::Mapping buffers;  // only for a remote client of a device that works in host memory
};
/// The parts of a new client's arena.
struct ArenaSize {
  std::uint64_t buffers = 0;  // the tenant's memory
  std::uint64_t staging = 0;
};
/// Reads and answers the Hello of a connection. Creates an arena, for a remote client with kSpareBytes more and, with
/// `in_host_memory`, with memory for its buffers.
Result<Accepted> Welcome(platform::Fd connection, const Clients& clients, ArenaSize size, bool in_host_memory);

/// False once the other side has closed the connection, or has sent data, which is not allowed after the handshake.
bool StillConnected(int socket);

}  // namespace weir::opencl
