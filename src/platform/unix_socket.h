// SPDX-License-Identifier: Apache-2.0
// Unix sockets: identifying the peer, and passing descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "platform/fd.h"

namespace weir::platform {

/// Listens on a SOCK_SEQPACKET socket at `path` with `mode`. A stale socket file is replaced. Any other file is left
/// alone (kAlreadyExists), as is a socket with a listener (kBusy).
Result<Fd> ListenSeqPacket(const std::string& path, mode_t mode);

/// Connects without blocking. kNotFound or kUnavailable: nothing listens; kTimeout: the backlog is full.
Result<Fd> ConnectSeqPacket(const std::string& path);

/// Whether no process listens on the SOCK_SEQPACKET socket at `path`. Makes no connection that a listener would notice.
bool NobodyListens(const std::string& path);

/// Like the functions above, for SOCK_STREAM sockets.
Result<Fd> ListenUnixStream(const std::string& path, mode_t mode);
Result<Fd> ConnectUnixStream(const std::string& path);
/// Never blocks. Returns an empty descriptor if no connection is queued. kResourceExhausted: no descriptors are left;
/// the connection stays queued, so ask again after a pause (accept_pause.h).
Result<Fd> AcceptUnix(int listener);

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};
/// The peer according to the kernel (SO_PEERCRED), which can't be forged.
Result<Peer> PeerOf(int fd);

/// A pidfd of the peer process; it stays valid when the pid is reused. From the kernel (SO_PEERPIDFD, Linux 6.5).
/// kNotFound: the process has ended, and another one may have its pid. kIo: the kernel is too old.
Result<Fd> PeerPidFdOf(int fd);

/// Whether the peer process is a child of `parent`.
bool PeerIsChildOf(int fd, pid_t parent);

/// Sends one packet with descriptors. Never blocks; kTimeout: the peer does not read.
Status SendPacket(int fd, std::span<const std::byte> packet, std::span<const int> fds = {});
/// Sends the last packet of a connection, discards the peer's unread packets and closes the connection: the peer would
/// lose the last packet if a socket with unread packets were closed.
void SendLastPacket(Fd connection, std::span<const std::byte> packet);

struct Packet {
  std::vector<std::byte> bytes;  // empty: the peer has closed
  std::vector<Fd> fds;
};
enum class Descriptors { kTaken, kRefused };
/// Never blocks; kTimeout: no packet is queued. kProtocol: a packet is longer than `bytes_max` or has more than 8
/// descriptors. Received descriptors are close-on-exec. With kRefused, a packet with descriptors is kProtocol, and the
/// descriptors are never received: closing a descriptor of a hostile peer can block.
Result<Packet> ReceivePacket(int fd, std::size_t bytes_max, Descriptors descriptors = Descriptors::kTaken);

/// Waits until the descriptor is readable, for at most `timeout_ms`; signals do not end the wait. False: timeout.
bool WaitReadable(int fd, int timeout_ms);

/// Whether the other side of a Unix stream socket has closed it, whether data waits or not. False for a side that only
/// sends no more: it may still read.
bool HasHungUp(int fd);

}  // namespace weir::platform
