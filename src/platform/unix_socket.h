// SPDX-License-Identifier: Apache-2.0
// Unix sockets: who is at the other end, and passing descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "platform/fd.h"

namespace weir::platform {

/// Listens on a SOCK_SEQPACKET socket at `path` with `mode`. A stale socket file is replaced; anything else at the path
/// is left alone (kAlreadyExists), and so is a socket on which somebody still listens (kBusy).
Result<Fd> ListenSeqPacket(const std::string& path, mode_t mode);

/// Connects without blocking. kNotFound or kUnavailable when nobody listens, kTimeout when the backlog is full.
Result<Fd> ConnectSeqPacket(const std::string& path);

/// The same with SOCK_STREAM sockets.
Result<Fd> ListenUnixStream(const std::string& path, mode_t mode);
Result<Fd> ConnectUnixStream(const std::string& path);
/// Never blocks: an empty descriptor when nobody has connected, or there are no descriptors left.
Result<Fd> AcceptUnix(int listener);

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};
/// From the kernel (SO_PEERCRED): can't be forged.
Result<Peer> PeerOf(int fd);

/// The process that connected, as a pidfd: names this process also when its pid is given to another. From the kernel
/// (SO_PEERPIDFD, Linux 6.5). An error when the process has ended, or the kernel can't tell.
Result<Fd> PeerPidFdOf(int fd);

/// One packet, with descriptors. Never blocks; kTimeout when the other side doesn't read.
Status SendPacket(int fd, std::span<const std::byte> packet, std::span<const int> fds = {});
/// Sends a connection's last packet and closes it, without reading what the other side has sent. The other side
/// receives the packet, where it can be sent at all: closing a socket that has unread packets would discard it.
void SendLastPacket(Fd connection, std::span<const std::byte> packet);

struct Packet {
  std::vector<std::byte> bytes;  // empty: the other side has closed
  std::vector<Fd> fds;
};
enum class Descriptors { kTaken, kRefused };
/// Never blocks: kTimeout when there is nothing. A packet longer than `bytes_max` or with more than 8 descriptors is
/// kProtocol. Descriptors are close-on-exec. kRefused: a packet with any is kProtocol, and they never become ours:
/// closing one that a hostile peer made can block.
Result<Packet> ReceivePacket(int fd, std::size_t bytes_max, Descriptors descriptors = Descriptors::kTaken);

/// Waits until something can be read, at most `timeout_ms`, whatever signals come. False: nothing came.
bool WaitReadable(int fd, int timeout_ms);

}  // namespace weir::platform
