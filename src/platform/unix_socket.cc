// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "platform/clock.h"
#include "platform/process.h"

namespace weir::platform {
namespace {

constexpr std::size_t kFdsMax = 8;

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Fail(Errc::kInvalidArgument, "'" + path + "' can't be a socket's path: 1 to " +
                                            std::to_string(sizeof address.sun_path - 1) + " bytes");
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

/// Avoids descriptors 0, 1 and 2. A tenant's program may have closed its standard streams, and would then read from or
/// write to this descriptor.
Fd AboveStandard(Fd fd) {
  if (fd.get() < 0 || fd.get() > STDERR_FILENO) return fd;
  return Fd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

Result<Fd> ConnectTo(const std::string& path, int type) {
  WEIR_TRY(const sockaddr_un address, AddressOf(path));
  Fd fd = AboveStandard(Fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
  if (!fd) return ErrnoError("making a socket", errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return ErrnoError("connecting to " + path, errno);
  return fd;
}

Status RemoveStale(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return errno == ENOENT ? Ok() : ErrnoError("lstat " + path, errno);
  if (!S_ISSOCK(info.st_mode))
    return Fail(Errc::kAlreadyExists, path + " exists and is not a socket; it is left alone");
  // Only a refused connection proves that nothing listens. A full backlog, another kind of socket or a missing
  // permission may hide a listener.
  const auto connected = ConnectTo(path, SOCK_SEQPACKET);
  if (connected || (connected.error().code != Errc::kUnavailable && connected.error().code != Errc::kNotFound))
    return Fail(Errc::kBusy, "another process listens on " + path + " already");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError("removing the stale socket " + path, errno);
  return Ok();
}

Result<Fd> ListenAt(const std::string& path, mode_t mode, int type) {
  WEIR_TRY(const sockaddr_un address, AddressOf(path));
  WEIR_TRY_STATUS(RemoveStale(path));
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoError("making a socket", errno);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return ErrnoError("binding " + path, errno);
  if (::chmod(path.c_str(), mode) != 0) return ErrnoError("chmod " + path, errno);
  if (::listen(fd.get(), SOMAXCONN) != 0) return ErrnoError("listening on " + path, errno);
  return fd;
}

}  // namespace

Result<Fd> ListenSeqPacket(const std::string& path, mode_t mode) { return ListenAt(path, mode, SOCK_SEQPACKET); }
Result<Fd> ConnectSeqPacket(const std::string& path) { return ConnectTo(path, SOCK_SEQPACKET); }
Result<Fd> ListenUnixStream(const std::string& path, mode_t mode) { return ListenAt(path, mode, SOCK_STREAM); }
Result<Fd> ConnectUnixStream(const std::string& path) { return ConnectTo(path, SOCK_STREAM); }

bool NobodyListens(const std::string& path) {
  // The kernel first looks for a listener, and then compares the kinds of the sockets: EPROTOTYPE proves that there is
  // a listener.
  const auto connected = ConnectTo(path, SOCK_STREAM);
  return !connected && (connected.error().code == Errc::kUnavailable || connected.error().code == Errc::kNotFound);
}

Result<Fd> AcceptUnix(int listener) {
  for (;;) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd || errno == EAGAIN) return fd;
    if (errno != EINTR && errno != ECONNABORTED) return ErrnoError("accepting a connection", errno);
  }
}

Result<Peer> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return ErrnoError("SO_PEERCRED", errno);
  return Peer{credentials.pid, credentials.uid};
}

Result<Fd> PeerPidFdOf(int fd) {
#ifdef SO_PEERPIDFD
  constexpr int kPeerPidFd = SO_PEERPIDFD;
#else
  constexpr int kPeerPidFd = 77;  // for older headers
#endif
  int process = -1;
  socklen_t size = sizeof process;
  if (::getsockopt(fd, SOL_SOCKET, kPeerPidFd, &process, &size) != 0) {
    if (errno == ENOPROTOOPT) return ErrnoError("SO_PEERPIDFD", errno);
    return Fail(Errc::kNotFound, "the process at the other end has ended");
  }
  Fd owned(process);
  ::fcntl(owned.get(), F_SETFD, FD_CLOEXEC);
  return owned;
}

bool PeerIsChildOf(int fd, pid_t parent) {
  const auto who = PeerOf(fd);
  const auto process = PeerPidFdOf(fd);
  if (!who || (!process && process.error().code == Errc::kNotFound)) return false;
  const auto started_by = ParentOf(who->pid);
  if (!started_by || *started_by != parent) return false;
  // If the kernel provides a pidfd of the peer, the pid was not reused in the meantime.
  return !process || !WaitReadable(process->get(), 0);
}

Status SendPacket(int fd, std::span<const std::byte> packet, std::span<const int> fds) {
  WEIR_CHECK(fds.size() <= kFdsMax);
  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  if (::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return ErrnoError("sending a packet", errno);
  return Ok();
}

void SendLastPacket(Fd connection, std::span<const std::byte> packet) {
  static_cast<void>(SendPacket(connection.get(), packet));
  ::shutdown(connection.get(), SHUT_RD);  // no more data can arrive, so that pending data can be discarded
  char byte = 0;
  while (::recv(connection.get(), &byte, 1, MSG_DONTWAIT) > 0) continue;
}

Result<Packet> ReceivePacket(int fd, std::size_t bytes_max, Descriptors descriptors) {
  Packet packet;
  packet.bytes.resize(bytes_max);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kFdsMax)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptors == Descriptors::kTaken) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  ssize_t got = 0;
  do got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return ErrnoError("receiving a packet", errno);
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(passed);
    }
  }
  for (Fd& passed : packet.fds) passed = AboveStandard(std::move(passed));
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return Fail(Errc::kProtocol,
                "a packet is longer than " + std::to_string(bytes_max) + " bytes or carries too many descriptors");
  packet.bytes.resize(static_cast<std::size_t>(got));
  return packet;
}

bool WaitReadable(int fd, int timeout_ms) {
  const std::int64_t deadline_ns = NowNs() + std::int64_t{timeout_ms} * 1'000'000;
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const int ready = ::poll(&entry, 1, timeout_ms);
    if (ready >= 0 || errno != EINTR) return ready > 0;
    timeout_ms = static_cast<int>(std::max<std::int64_t>((deadline_ns - NowNs()) / 1'000'000, 0));
  }
}

bool HasHungUp(int fd) {
  pollfd entry{fd, 0, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace weir::platform
