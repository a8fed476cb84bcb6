// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_connections.h"

#include <fmt/format.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "platform/fd.h"
#include "platform/process.h"

namespace weir::platform {
namespace {

constexpr unsigned char kEstablished = 1;    // TCP_ESTABLISHED, which the kernel uses for Unix sockets too
constexpr unsigned char kShutBothWays = 3;   // RCV_SHUTDOWN | SEND_SHUTDOWN: the peer has closed its end
constexpr std::size_t kAnswerBytes = 1024;   // of one socket; the kernel sends about a hundred
constexpr timeval kAnswerTime{.tv_sec = 1};  // the kernel answers at once

/// The inode numbers of the sockets behind the process's descriptors, but 0, 1 and 2.
Result<std::vector<std::uint32_t>> SocketsOf(pid_t pid) {
  std::vector<std::uint32_t> sockets;
  std::error_code error;
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name == "0" || name == "1" || name == "2") continue;
    std::error_code gone;  // closed meanwhile
    const std::string target = std::filesystem::read_symlink(entry->path(), gone).string();
    constexpr std::string_view kPrefix = "socket:[";
    if (!target.starts_with(kPrefix)) continue;
    std::uint32_t inode = 0;
    const auto read = std::from_chars(target.data() + kPrefix.size(), target.data() + target.size(), inode);
    if (read.ec == std::errc()) sockets.push_back(inode);
  }
  if (error) return ErrnoError("reading " + folder, error.value());
  return sockets;
}

struct DiagRequest {
  nlmsghdr header;
  unix_diag_req body;
};

/// What an answer says: whether the socket is connected and the peer has not closed it.
bool SaysOpen(const unix_diag_msg& socket, std::size_t attribute_bytes) {
  if (socket.udiag_state != kEstablished) return false;
  auto left = static_cast<int>(attribute_bytes);
  const auto* attribute = reinterpret_cast<const rtattr*>(&socket + 1);
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
    if (attribute->rta_type == UNIX_DIAG_SHUTDOWN && RTA_PAYLOAD(attribute) >= 1)
      return *static_cast<const unsigned char*>(RTA_DATA(attribute)) != kShutBothWays;
  return true;
}

/// Asks the kernel about one socket. A socket that is not a Unix socket, or has been closed meanwhile, is not open.
Result<bool> IsOpen(int diagnosis, std::uint32_t inode) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = ~0U;
  request.body.udiag_ino = inode;
  request.body.udiag_cookie[0] = request.body.udiag_cookie[1] = ~0U;  // any
  if (::send(diagnosis, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request))
    return ErrnoError("asking the kernel about a socket", errno);
  alignas(nlmsghdr) std::array<char, kAnswerBytes> answer{};
  const ssize_t bytes = ::recv(diagnosis, answer.data(), answer.size(), 0);
  if (bytes < 0) return ErrnoError("reading what the kernel says about a socket", errno);
  auto left = static_cast<unsigned>(bytes);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (!NLMSG_OK(header, left)) return Fail(Errc::kInternal, "the kernel's answer about a socket is cut off");
  if (header->nlmsg_type == NLMSG_ERROR) {
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr)))
      return Fail(Errc::kInternal, "the kernel's answer about a socket is cut off");
    const int why = -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    if (why == ENOENT || why == ESTALE) return false;
    return ErrnoError("asking the kernel about a socket", why);
  }
  if (header->nlmsg_len < NLMSG_LENGTH(sizeof(unix_diag_msg)))
    return Fail(Errc::kInternal, "the kernel's answer about a socket is cut off");
  return SaysOpen(*static_cast<const unix_diag_msg*>(NLMSG_DATA(header)),
                  header->nlmsg_len - NLMSG_LENGTH(sizeof(unix_diag_msg)));
}

}  // namespace

Result<bool> HasOpenUnixConnection(pid_t pid) {
  WEIR_TRY_STATUS(StartTimeOf(pid));
  WEIR_TRY(const auto sockets, SocketsOf(pid));
  const Fd diagnosis(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diagnosis) return ErrnoError("opening the kernel's socket diagnosis", errno);
  ::setsockopt(diagnosis.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerTime, sizeof kAnswerTime);
  for (const std::uint32_t inode : sockets) {
    WEIR_TRY(const bool open, IsOpen(diagnosis.get(), inode));
    if (open) return true;
  }
  return false;
}

}  // namespace weir::platform
