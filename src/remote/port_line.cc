// SPDX-License-Identifier: Apache-2.0
#include "remote/port_line.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "platform/clock.h"

namespace weir::remote {
namespace {

std::optional<std::size_t> BytesOnLine(ssize_t count) {
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return std::nullopt;
}

class DescriptorLine final : public PortLine {
 public:
  DescriptorLine(platform::Fd port, std::uint32_t room) : port_(std::move(port)), room_(room) {
    struct stat info {};
    is_socket_ = ::fstat(port_.get(), &info) == 0 && S_ISSOCK(info.st_mode);
    ::fcntl(port_.get(), F_SETFL, ::fcntl(port_.get(), F_GETFL) | O_NONBLOCK);
  }
  std::optional<std::size_t> Read(std::span<std::byte> into) override {
    return BytesOnLine(::read(port_.get(), into.data(), into.size()));
  }
  std::optional<std::size_t> Write(std::span<const std::byte> bytes) override {
    return BytesOnLine(is_socket_ ? ::send(port_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                  : ::write(port_.get(), bytes.data(), bytes.size()));
  }
  [[nodiscard]] int fd() const override { return port_.get(); }
  [[nodiscard]] std::uint32_t room() const override { return room_; }

 private:
  platform::Fd port_;
  std::uint32_t room_;
  bool is_socket_ = false;
};

}  // namespace

std::unique_ptr<PortLine> LineOf(platform::Fd port, std::uint32_t room) {
  return std::make_unique<DescriptorLine>(std::move(port), room);
}

std::uint64_t DrawEpoch() {
  std::uint64_t epoch = 0;
  while (epoch == 0)
    if (::getrandom(&epoch, sizeof epoch, 0) != sizeof epoch) epoch = static_cast<std::uint64_t>(platform::NowNs());
  return epoch;
}

}  // namespace weir::remote
