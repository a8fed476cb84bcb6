// SPDX-License-Identifier: Apache-2.0
// HTTP from a socket. If the first byte is even, the rest is sent to a server: a request that reaches the handler is
// within the limits, and the server's reply is HTTP. If it is odd, the rest is a server's answer, and its body is also
// passed to the JSON decoder. The sender closes its direction afterwards, so that nothing waits.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

#include "http/client.h"
#include "http/json_api.h"
#include "http/server.h"
#include "platform/fd.h"
#include "tests/harness/temp_folder.h"

namespace {

using namespace weir;

constexpr std::size_t kBodyMax = 512;     // small enough for inputs to reach it
constexpr std::size_t kSaidMax = 32'768;  // less than a socket's buffer holds

void Require(bool holds) {
  if (!holds) std::abort();
}

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  Require(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Sends everything and closes this direction. The other side may have closed before.
void SendAll(int fd, std::string_view said) {
  while (!said.empty()) {
    const ssize_t sent = ::send(fd, said.data(), said.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    said.remove_prefix(static_cast<std::size_t>(sent));
  }
  ::shutdown(fd, SHUT_WR);
}

/// A server that runs in this thread.
class Served {
 public:
  void Hear(std::string_view said) {
    const platform::Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = AddressOf(path_);
    Require(client && ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    SendAll(client.get(), said);
    std::string answers;
    std::array<char, 4096> part{};
    for (;;) {
      loop_.poll();
      const ssize_t got = ::recv(client.get(), part.data(), part.size(), MSG_DONTWAIT);
      if (got > 0) answers.append(part.data(), static_cast<std::size_t>(got));
      if (got == 0 || (got < 0 && errno != EAGAIN)) break;
    }
    Require(answers.empty() || answers.starts_with("HTTP/1.1 "));
  }

 private:
  static void Handle(const http::Request& request, const http::Respond& respond) {
    Require(request.body.size() <= kBodyMax);
    Require(request.path.find('?') == std::string::npos && !request.method.empty());
    Require(request.peer_uid == ::geteuid() && request.peer_pid == ::getpid());
    const nlohmann::json body = http::ParseJson(request.body);
    respond(body.is_object() ? http::JsonReply(body) : http::ErrorReply(Fail(Errc::kInvalidArgument, request.path)));
  }
  static http::Limits Bounds() {
    http::Limits limits;
    limits.request_bytes = kBodyMax;
    limits.refuse = [](const http::Request& head) {
      Require(head.body.empty());
      return head.bearer == "no" ? std::optional(http::Reply{401, "text/plain", "no\n"}) : std::nullopt;
    };
    return limits;
  }

  weir::testing::TempFolder folder_;
  const std::string path_ = folder_ / "s";
  boost::asio::io_context loop_{1};
  std::unique_ptr<http::Server> server_ = std::move(http::Server::ListenUnix(loop_, path_, Bounds(), Handle).value());
};

/// A server in a separate thread that answers each connection with the bytes of the input.
class Answering {
 public:
  Answering() : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = AddressOf(path_);
    Require(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    Require(::listen(listener_.get(), 4) == 0);
    std::thread([this] { AnswerForever(); }).detach();
  }
  void Say(std::string_view said) {
    said_ = said;
    go_.release();
    const auto answer = http::AskUnix(path_, {"GET", "/v1/status"}, seconds(60));
    done_.acquire();
    if (!answer) {
      Require(answer.error().code != Errc::kTimeout);
      return;
    }
    static_cast<void>(http::ObjectOf(*answer, "asked").has_value());
  }

 private:
  void AnswerForever() {
    for (;;) {
      go_.acquire();
      const platform::Fd connection(::accept(listener_.get(), nullptr, nullptr));
      std::array<char, 4096> part{};
      static_cast<void>(::read(connection.get(), part.data(), part.size()));  // the request
      SendAll(connection.get(), said_);
      done_.release();
    }
  }

  weir::testing::TempFolder folder_;
  const std::string path_ = folder_ / "s";
  platform::Fd listener_;
  std::string_view said_;
  std::binary_semaphore go_{0}, done_{0};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > kSaidMax) return 0;
  const std::string_view said(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    static Served served;
    served.Hear(said);
  } else {
    static Answering& answering = *new Answering;  // its thread runs until the process ends
    answering.Say(said);
  }
  return 0;
}
