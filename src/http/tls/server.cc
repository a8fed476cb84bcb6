// SPDX-License-Identifier: Apache-2.0
#include "http/tls/server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <list>
#include <mutex>
#include <thread>

#include "http/tls/tunnel.h"
#include "net/crew.h"
#include "net/tcp_socket.h"
#include "net/tcp_stream.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "platform/failure_lines.h"

namespace weir::http::tls {
namespace {

constexpr Duration kKnownWithin = seconds(10);
constexpr int kReapEveryMs = 500;

class Listening final : public Server {
 public:
  Listening(boost::asio::io_context& loop, net::TcpListener listener, net::TlsIdentity identity, ServerOptions options,
            Handler handler, platform::Fd stop)
      : loop_(loop),
        listener_(std::move(listener)),
        identity_(std::move(identity)),
        options_(std::move(options)),
        server_(http::Server::Adopting(loop, options_.requests, std::move(handler))),
        door_(options_.connections),
        stop_(std::move(stop)),
        accepting_([this] { AcceptAll(); }) {}
  ~Listening() override {
    static_cast<void>(::eventfd_write(stop_.get(), 1));
    accepting_.join();
  }
  [[nodiscard]] std::uint16_t port() const override { return listener_.port(); }

 private:
  void AcceptAll() {
    platform::AcceptPause pause;
    net::Crew crew;  // its destructor waits for the connections' threads
    for (;;) {
      pollfd watched[2] = {{pause.Holds(platform::Now()) ? -1 : listener_.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      if (::poll(watched, 2, kReapEveryMs) < 0 && errno != EINTR) return CutAll();
      if ((watched[1].revents & POLLIN) != 0) return CutAll();
      static_cast<void>(crew.Reap());
      SayDueLines();
      if ((watched[0].revents & POLLIN) == 0) continue;
      auto socket = listener_.Accept();
      if (!socket) {
        static_cast<void>(pause.Failed(platform::Now()));
        continue;
      }
      std::shared_ptr<net::Door::Place> place = door_.Come(net::NetworkOf(socket->get()), net::EndOf(*socket));
      if (!place) continue;
      crew.Start([this, place, shared = std::make_shared<platform::Fd>(std::move(*socket))] {
        bool known = false;
        if (const Status status = Serve(std::move(*shared), *place, known); !status)
          SayRefused(known ? of_known_ : of_strangers_, status.error().message);
      });
    }
  }

  /// Strangers can fail as often as they like. They hide no failure of a peer that has shown its certificate.
  void SayRefused(platform::FailureLines& lines, const std::string& why) {
    const std::lock_guard lock(lines_mutex_);
    Say(lines.Failed(platform::Now(), why));
  }
  void SayDueLines() {
    const std::lock_guard lock(lines_mutex_);
    for (platform::FailureLines* lines : {&of_strangers_, &of_known_}) Say(lines->Due(platform::Now()));
  }
  void Say(const std::string& line) const {
    if (!line.empty() && options_.refused) options_.refused(line);
  }

  /// Sets `known` once the peer has shown its certificate.
  Status Serve(platform::Fd socket, net::Door::Place& place, bool& known) {
    WEIR_TRY(const auto stream, net::StartTls(std::move(socket), identity_, net::Role::kServer, kKnownWithin));
    known = true;
    Holder holder{
        .role = std::string(net::NameOf(stream->peer_role())), .name = stream->peer_name(), .address = stream->peer()};
    if (!place.Name(net::RecordedName(stream->peer_role(), holder.name)))
      return Fail(Errc::kResourceExhausted,
                  holder.address + ": " + holder.role + " '" + holder.name + "' has too many connections");
    place.Admitted();
    WEIR_TRY(SocketPair pair, MakeSocketPair());
    auto at = streams_.end();
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return Ok();
      at = streams_.insert(streams_.end(), stream.get());
    }
    boost::asio::post(loop_, [weak = std::weak_ptr(server_), holder = std::move(holder),
                              here = std::make_shared<platform::Fd>(std::move(pair.here))] {
      if (const auto server = weak.lock()) server->Adopt(std::move(*here), holder);
    });
    RunTunnel(*stream, pair.there);
    const std::lock_guard lock(mutex_);
    streams_.erase(at);
    return Ok();
  }

  void CutAll() {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (net::Stream* stream : streams_) stream->Shutdown();
  }

  boost::asio::io_context& loop_;
  const net::TcpListener listener_;
  const net::TlsIdentity identity_;
  const ServerOptions options_;
  const std::shared_ptr<http::Server> server_;
  net::Door door_;
  std::mutex mutex_;
  std::list<net::Stream*> streams_;
  bool ending_ = false;
  std::mutex lines_mutex_;
  platform::FailureLines of_strangers_, of_known_;
  const platform::Fd stop_;
  std::thread accepting_;  // last: it uses the other members
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(boost::asio::io_context& loop, const net::Endpoint& endpoint,
                                               const net::TlsIdentity& identity, ServerOptions options,
                                               Handler handler) {
  WEIR_TRY(net::TcpListener listener, net::TcpListener::Listen(endpoint));
  platform::Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return platform::ErrnoError("making an eventfd", errno);
  return std::unique_ptr<Server>(std::make_unique<Listening>(loop, std::move(listener), identity, std::move(options),
                                                             std::move(handler), std::move(stop)));
}

}  // namespace weir::http::tls
