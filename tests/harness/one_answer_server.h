// SPDX-License-Identifier: Apache-2.0
// A server that sends exactly what a test wants to one client.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

namespace weir::testing {

/// Listens at a fresh path, accepts one connection, reads one request and passes the connection to `answer`.
class OneAnswerServer {
 public:
  explicit OneAnswerServer(std::function<void(OneAnswerServer&, int)> answer) : answer_(std::move(answer)) {
    std::string name = ::testing::TempDir() + "/weir-http-XXXXXX";
    dir_ = mkdtemp(name.data());
    path_ = dir_ / "s";
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 4), 0);
    EXPECT_EQ(pipe(stop_), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  OneAnswerServer(const OneAnswerServer&) = delete;
  ~OneAnswerServer() {
    close(stop_[1]);
    if (thread_.joinable()) thread_.join();
    close(stop_[0]);
    close(listener_);
    std::filesystem::remove_all(dir_);
  }

  static OneAnswerServer Saying(std::string_view text) {
    return OneAnswerServer([text](OneAnswerServer&, int fd) {
      EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    });
  }

  [[nodiscard]] std::string Path() const { return path_.string(); }
  /// The request that was received.
  [[nodiscard]] const std::string& Request() {
    if (thread_.joinable()) thread_.join();
    return request_;
  }
  /// Holds the connection open until the test ends.
  void Hold() { Readable(stop_[0], stop_[0]); }

 private:
  static bool Readable(int fd, int stop) {
    pollfd polled[2] = {{fd, POLLIN, 0}, {stop, POLLIN, 0}};
    poll(polled, 2, 10'000);
    return (polled[0].revents & POLLIN) != 0;
  }
  void Serve() {
    if (!Readable(listener_, stop_[0])) return;
    const int fd = accept(listener_, nullptr, nullptr);
    while (!Complete() && Readable(fd, stop_[0])) {
      char bytes[4096];
      const ssize_t count = read(fd, bytes, sizeof(bytes));
      if (count <= 0) break;
      request_.append(bytes, static_cast<std::size_t>(count));
    }
    answer_(*this, fd);
    close(fd);
  }
  [[nodiscard]] bool Complete() const {
    const std::size_t head = request_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const std::size_t length = request_.find("Content-Length: ");
    return length == std::string::npos || request_.size() >= head + 4 + std::stoul(request_.substr(length + 16));
  }

  std::function<void(OneAnswerServer&, int)> answer_;
  std::filesystem::path dir_, path_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::string request_;
  std::thread thread_;
};

}  // namespace weir::testing
