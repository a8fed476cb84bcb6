// SPDX-License-Identifier: Apache-2.0
#include "platform/unix_connections.h"

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

constexpr unsigned char kEstablished = 1;   // TCP_ESTABLISHED, which the kernel uses for Unix sockets too
constexpr char kShutBothWays = 3;           // RCV_SHUTDOWN | SEND_SHUTDOWN: the peer has closed its end
constexpr std::size_t kAnswerBytes = 1024;  // of one socket; the kernel sends about a hundred
constexpr timeval kAnswerTime{1, 0};        // the kernel answers at once

/// The inode numbers of the sockets behind the process's descriptors.
Result<std::vector<std::uint32_t>> SocketsOf(pid_t pid) {
  std::vector<std::uint32_t> sockets;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
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

/// Whether the socket that an answer describes is named `path` and connected, and its peer has not closed it.
bool IsClientAt(std::string_view path, const unix_diag_msg& socket, std::size_t attribute_bytes) {
  bool named = false, shut = false;
  auto left = static_cast<int>(attribute_bytes);
  const auto* attribute = reinterpret_cast<const rtattr*>(&socket + 1);
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    const std::string_view value(static_cast<const char*>(RTA_DATA(attribute)), RTA_PAYLOAD(attribute));
    if (attribute->rta_type == UNIX_DIAG_NAME) named = value.substr(0, value.find('\0')) == path;
    if (attribute->rta_type == UNIX_DIAG_SHUTDOWN && !value.empty()) shut = value.front() == kShutBothWays;
  }
  return socket.udiag_state == kEstablished && named && !shut;
}

/// Asks the kernel about the socket with this inode. A socket of another family, or one that has been closed meanwhile,
/// is no connection.
Result<bool> IsClientAt(std::string_view path, int diagnosis, std::uint32_t inode) {
  DiagRequest request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = ~0U;
  request.body.udiag_ino = inode;
  request.body.udiag_show = UDIAG_SHOW_NAME;
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
  return IsClientAt(path, *static_cast<const unix_diag_msg*>(NLMSG_DATA(header)),
                    header->nlmsg_len - NLMSG_LENGTH(sizeof(unix_diag_msg)));
}

}  // namespace

Result<bool> HasClientAt(const std::string& path, pid_t pid) {
  WEIR_TRY_STATUS(StartTimeOf(pid));
  WEIR_TRY(const auto sockets, SocketsOf(pid));
  const Fd diagnosis(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!diagnosis) return ErrnoError("opening the kernel's socket diagnosis", errno);
  ::setsockopt(diagnosis.get(), SOL_SOCKET, SO_RCVTIMEO, &kAnswerTime, sizeof kAnswerTime);
  for (const std::uint32_t inode : sockets) {
    WEIR_TRY(const bool client, IsClientAt(path, diagnosis.get(), inode));
    if (client) return true;
  }
  return false;
}

}  // namespace weir::platform
