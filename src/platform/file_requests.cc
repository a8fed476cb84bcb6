// SPDX-License-Identifier: Apache-2.0
#include "platform/file_requests.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>

#include "platform/unix_socket.h"

namespace weir::platform {
namespace {

constexpr std::size_t kAnswerBytesMax = 4'096;
constexpr int kAnswerWithinMs = 5'000;

Result<Fd> Open(const std::string& path, int flags) {
  Fd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
  if (!fd) return ErrnoError("opening " + path, errno);
  return fd;
}

Result<Fd> OpenPort(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoError("looking for the port " + path, errno);
  if (S_ISSOCK(info.st_mode)) return ConnectUnixStream(path);
  if (S_ISCHR(info.st_mode) || S_ISREG(info.st_mode)) return Open(path, O_RDWR);
  return Fail(Errc::kInvalidArgument, path + " is neither a character device nor a socket, nor memory of the host's");
}

// The code of an answer: 0 for a descriptor, else one more than the error's number.
std::byte ByteOf(Errc code) { return static_cast<std::byte>(static_cast<unsigned>(code) + 1); }
Errc CodeOf(std::byte byte) {
  const auto number = std::to_integer<std::size_t>(byte) - 1;
  return number < kErrcTable.size() ? kErrcTable[number].code : Errc::kIo;
}

}  // namespace

Result<Fd> OpenOffered(const OfferedFile& file) {
  switch (file.how) {
    case OfferedFile::How::kRead: return Open(file.path, O_RDONLY);
    case OfferedFile::How::kMake: return Open(file.path, O_RDWR | O_CREAT | O_NOFOLLOW);
    case OfferedFile::How::kPort: return OpenPort(file.path);
  }
  return Fail(Errc::kInternal, file.path + ": an unknown way of opening");
}

bool AnswerFileRequest(int socket, std::span<const OfferedFile> offered) {
  const auto request = ReceivePacket(socket, 1, Descriptors::kRefused);
  if (!request) return request.error().code == Errc::kTimeout;
  if (request->bytes.size() != 1) return false;
  const auto number = std::to_integer<std::size_t>(request->bytes.front());
  if (number >= offered.size()) return false;
  const Result<Fd> file = OpenOffered(offered[number]);
  // A service that does not read its answers gets none.
  if (file) {
    const std::array fds{file->get()};
    return SendPacket(socket, std::array{std::byte{0}}, fds).has_value();
  }
  const std::string_view text = std::string_view(file.error().message).substr(0, kAnswerBytesMax - 1);
  std::vector<std::byte> answer{ByteOf(file.error().code)};
  std::ranges::copy(std::as_bytes(std::span(text)), std::back_inserter(answer));
  return SendPacket(socket, answer).has_value();
}

Result<Fd> FileRequests::Open(unsigned char number) {
  const std::lock_guard lock(mutex_);
  const auto lost = [&]() -> Error {
    socket_.Reset();  // a late answer must not be taken for that of the next request
    return Fail(Errc::kUnavailable, offered_.at(number).path + " is not opened: the daemon does not answer");
  };
  if (!socket_ || !SendPacket(socket_.get(), std::array{std::byte{number}})) return lost();
  if (!WaitReadable(socket_.get(), kAnswerWithinMs)) return lost();
  auto answer = ReceivePacket(socket_.get(), kAnswerBytesMax);
  if (!answer || answer->bytes.empty()) return lost();
  if (answer->bytes.front() == std::byte{0}) {
    if (answer->fds.size() != 1) return lost();
    return std::move(answer->fds.front());
  }
  const auto text = std::span(answer->bytes).subspan(1);
  return Fail(CodeOf(answer->bytes.front()), std::string(reinterpret_cast<const char*>(text.data()), text.size()));
}

}  // namespace weir::platform
