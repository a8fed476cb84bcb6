// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cstring>
#include <limits>
#include <map>
#include <optional>

#include "http/event_stream.h"
#include "http/json_api.h"
#include "platform/fd.h"
#include "platform/unix_socket.h"

namespace weir::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Protocol = asio::generic::stream_protocol;  // covers Unix and TCP with one set of template instances
using Stream = beast::basic_stream<Protocol>;

constexpr auto kIdleMax = std::chrono::seconds(30);
constexpr auto kPauseAfterFailedAccept = std::chrono::milliseconds(100);
/// Clients may connect faster than connections can be accepted, so that other work of the loop comes in between.
constexpr int kAcceptsAtOnce = 32;

Reply TooManyLarge(const char* what, std::size_t all_max, std::size_t of_one_max) {
  const auto in_mib = [](std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  return ErrorReply(Fail(Errc::kUnavailable,
                         fmt::format("there is no room for another one: of {} over {} KiB, at most {:g} MiB of one "
                                     "client and {:g} MiB of all may be under way at a time; try again when others "
                                     "have ended",
                                     what, kLargeBody >> 10, in_mib(of_one_max), in_mib(all_max))));
}

/// Large bodies, or large replies, that are in memory: their bytes, of all clients and of each.
class LargeBytes {
 public:
  LargeBytes(std::size_t all_max, std::size_t of_one_max) : all_max_(all_max), of_one_max_(of_one_max) {}
  [[nodiscard]] bool Add(const std::string& client, std::size_t bytes) {
    const auto of = of_.find(client);
    if (all_ + bytes > all_max_ || (of != of_.end() ? of->second : 0) + bytes > of_one_max_) return false;
    all_ += bytes;
    of_[client] += bytes;
    return true;
  }
  void Remove(const std::string& client, std::size_t bytes) {
    all_ -= bytes;
    if (const auto of = of_.find(client); (of->second -= bytes) == 0) of_.erase(of);
  }

 private:
  const std::size_t all_max_, of_one_max_;
  std::size_t all_ = 0;
  std::map<std::string, std::size_t> of_;
};

struct Shared {
  Shared(asio::io_context& of, const Limits& bounds, Handler answers)
      : loop(of), limits(bounds), handler(std::move(answers)) {}

  asio::io_context& loop;
  const Limits limits;
  const Handler handler;
  std::size_t connections = 0;
  std::map<std::string, std::size_t> by_address;  // connections from each address, and of each holder
  LargeBytes bodies{limits.large_bytes, limits.large_bytes_of_one};
  LargeBytes replies{limits.reply_bytes, limits.reply_bytes_of_one};
};

/// The holder of a token among the clients; empty: no token.
std::string HolderName(const Holder& holder) { return holder.role.empty() ? "" : holder.role + ":" + holder.name; }

/// One connection. Lives while an operation or an answer is pending.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, int family, std::string address, Holder holder, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)),
        shared_(std::move(shared)),
        address_(std::move(address)),
        holder_(std::move(holder)) {
    ++shared_->connections;
    if (!address_.empty()) ++shared_->by_address[address_];
    if (family != AF_UNIX || !holder_.role.empty()) return;
    if (const auto peer = platform::PeerOf(stream_.socket().native_handle())) peer_ = *peer;
  }
  ~Session() {
    --shared_->connections;
    if (!address_.empty() && --shared_->by_address[address_] == 0) shared_->by_address.erase(address_);
    EndLarge();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read() {
    parser_.emplace();
    // With a limit, the parser would refuse a large body before `refuse` has checked the head.
    parser_->body_limit(shared_->limits.too_large ? std::numeric_limits<std::uint64_t>::max()
                                                  : shared_->limits.request_bytes);
    parser_->header_limit(16 * 1024);
    stream_.expires_after(kIdleMax);
    beast::http::async_read_header(stream_, buffer_, *parser_,
                                   [self = shared_from_this()](beast::error_code error, std::size_t) {
                                     if (self->CanGoOn(error)) self->ReadBody();
                                   });
  }

 private:
  /// The handler's reference to the request. Sends an error if it is destroyed without an answer.
  class Answering {
   public:
    Answering(std::shared_ptr<Session> session, bool keep_alive)
        : session_(std::move(session)), keep_alive_(keep_alive) {}
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;
    ~Answering() {
      if (!session_) return;
      if (session_->shared_->loop.stopped())  // a client may ask the program's successor
        Answer({503, "application/json",
                "{\"error\": {\"code\": \"unavailable\", \"message\": \"the service has ended\"}}\n"});
      else
        Answer({500, "application/json",
                "{\"error\": {\"code\": \"internal\", \"message\": \"the request was abandoned\"}}\n"});
    }
    void Answer(Reply reply) {
      if (const auto to = std::exchange(session_, nullptr)) to->Write(std::move(reply), keep_alive_);
    }

   private:
    std::shared_ptr<Session> session_;
    const bool keep_alive_;
  };

  /// False: the client has disconnected, or an error reply is being sent.
  bool CanGoOn(beast::error_code error) {
    if (!error) return true;
    if (error == beast::http::error::body_limit && shared_->limits.too_large)
      Write(*shared_->limits.too_large, false);
    else if (error != beast::http::error::end_of_stream && error != beast::error::timeout)
      Write({400, "text/plain", "bad request: " + error.message() + "\n"}, false);
    return false;
  }
  void ReadBody() {
    const Limits& limits = shared_->limits;
    if (limits.refuse)
      if (auto refusal = limits.refuse(ReceivedRequest())) return Write(std::move(*refusal), false);
    const auto length = parser_->content_length();
    std::size_t bytes_max = limits.request_bytes;
    if (limits.too_large) {
      if (limits.request_bytes_of) bytes_max = limits.request_bytes_of(ReceivedRequest());
      if (length && *length > bytes_max) return Write(*limits.too_large, false);
      parser_->body_limit(bytes_max);
    }
    if (!BeginLarge(shared_->bodies, parser_->chunked() ? bytes_max : length.value_or(0)))
      return Write(TooManyLarge("requests", limits.large_bytes, limits.large_bytes_of_one), false);
    beast::http::async_read(stream_, buffer_, *parser_,
                            [self = shared_from_this()](beast::error_code error, std::size_t) {
                              if (self->CanGoOn(error)) self->Ask();
                            });
  }
  /// Counts a large body or reply until EndLarge. False: there are too many already.
  [[nodiscard]] bool BeginLarge(LargeBytes& among, std::uint64_t bytes) {
    if (bytes <= kLargeBody) return true;
    if (!among.Add(Client(), bytes)) return false;
    large_ = {&among, bytes};
    return true;
  }
  void EndLarge() {
    const auto [among, bytes] = std::exchange(large_, {});
    if (among != nullptr) among->Remove(Client(), bytes);
  }
  [[nodiscard]] std::string Client() const { return address_.empty() ? "uid " + std::to_string(peer_.uid) : address_; }
  /// The part of the request that has arrived.
  [[nodiscard]] Request ReceivedRequest() const {
    const auto& message = parser_->get();
    const std::string target(message.target());
    const std::size_t question = target.find('?');
    const std::string authorization(message[beast::http::field::authorization]);
    constexpr std::string_view kBearer = "Bearer ";
    const auto length = parser_->content_length();
    return Request{.method = std::string(message.method_string()),
                   .path = target.substr(0, question),
                   .query = question == std::string::npos ? "" : target.substr(question + 1),
                   .bearer = authorization.starts_with(kBearer) ? authorization.substr(kBearer.size()) : std::string(),
                   .peer_uid = peer_.uid,
                   .peer_pid = peer_.pid,
                   .host = LineOf(beast::http::field::host),
                   .origin = LineOf(beast::http::field::origin),
                   .content_type = LineOf(beast::http::field::content_type),
                   .has_body = parser_->chunked() || (length && *length > 0),
                   .holder = holder_};
  }
  [[nodiscard]] std::string LineOf(beast::http::field field) const {
    std::string all;
    const auto [begin, end] = parser_->get().equal_range(field);
    for (auto line = begin; line != end; ++line) all += (line == begin ? "" : ", ") + std::string(line->value());
    return all;
  }
  void Ask() {
    stream_.expires_never();  // the handler has no time limit
    auto answering = std::make_shared<Answering>(shared_from_this(), parser_->get().keep_alive());
    try {
      Request request = ReceivedRequest();
      request.body = std::move(parser_->get().body());
      request.when_gone = [weak = weak_from_this()](std::function<void()> gone) {
        if (const auto self = weak.lock()) self->WatchForEnd(std::move(gone));
      };
      is_asking_ = true;
      shared_->handler(request, [answering](Reply reply) { answering->Answer(std::move(reply)); });
    } catch (const std::exception&) {  // for example nlohmann's type error or std::bad_alloc
      answering->Answer(
          {500, "application/json",
           "{\"error\": {\"code\": \"internal\", \"message\": \"the request could not be carried out\"}}\n"});
    }
  }
  void WatchForEnd(std::function<void()> gone) {
    if (!is_asking_) return;
    gone_ = std::move(gone);
    stream_.socket().async_wait(Protocol::socket::wait_error, [weak = weak_from_this()](beast::error_code error) {
      const auto self = weak.lock();
      if (error || !self || !platform::HasHungUp(self->stream_.socket().native_handle())) return;
      if (const auto tell = std::exchange(self->gone_, nullptr)) tell();
    });
  }
  void Write(Reply reply, bool keep_alive) {
    is_asking_ = false;
    if (std::exchange(gone_, nullptr)) {
      beast::error_code ignored;  // the peer may have disconnected already
      stream_.socket().cancel(ignored);
    }
    EndLarge();
    if (reply.events) return StartEvents(std::move(reply));
    if (!BeginLarge(shared_->replies, reply.body.size()))
      reply = TooManyLarge("replies", shared_->limits.reply_bytes, shared_->limits.reply_bytes_of_one);
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(beast::http::field::server, "weir");
    response_.set(beast::http::field::content_type, reply.content_type);
    for (const auto& [name, value] : shared_->limits.headers) response_.set(name, value);
    response_.keep_alive(keep_alive);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    stream_.expires_after(kIdleMax);
    beast::http::async_write(stream_, response_,
                             [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
                               self->response_ = {};
                               self->EndLarge();
                               if (!error && keep_alive) return self->Read();
                               beast::error_code ignored;  // the peer may have disconnected already
                               self->stream_.socket().shutdown(Protocol::socket::shutdown_send, ignored);
                             });
  }

  // -- A stream of events: a head, then texts until the client disconnects. The connection is not used again.

  void StartEvents(Reply reply) {
    events_ = std::move(reply.events);
    std::string head = fmt::format(
        "HTTP/1.1 {} {}\r\nServer: weir\r\nContent-Type: {}\r\nConnection: close\r\n", reply.status,
        std::string(beast::http::obsolete_reason(beast::http::int_to_status(reply.status))), reply.content_type);
    for (const auto& [name, value] : shared_->limits.headers)
      head.append(name).append(": ").append(value).append("\r\n");
    sending_ = std::make_shared<const std::string>(head + "\r\n");
    events_->Attach([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->SendNextEvent();
    });
    stream_.expires_never();
    // The client must send nothing more. Any bytes from it end the stream, as a disconnection does.
    stream_.async_read_some(asio::buffer(unexpected_),
                            [self = shared_from_this()](beast::error_code, std::size_t) { self->EndEvents(); });
    SendWhatIsNext();
  }
  void SendNextEvent() {
    if (events_->ended()) return EndEvents();
    if (sending_) return;
    sending_ = events_->Next();
    if (sending_) SendWhatIsNext();
  }
  void SendWhatIsNext() {
    stream_.expires_after(kIdleMax);  // applies only to the write; the pending read has no limit
    asio::async_write(stream_, asio::buffer(*sending_),
                      [self = shared_from_this()](beast::error_code error, std::size_t) {
                        self->sending_.reset();
                        self->events_->Sent();
                        if (error) return self->EndEvents();
                        self->SendNextEvent();
                      });
  }
  void EndEvents() {
    beast::error_code ignored;  // the socket may be closed already
    stream_.socket().close(ignored);
    asio::post(stream_.get_executor(), [self = shared_from_this()] { self->events_->End(); });
  }

  Stream stream_;
  std::shared_ptr<Shared> shared_;
  const std::string address_;  // of the peer, or HolderName; empty for a Unix socket
  const Holder holder_;
  platform::Peer peer_;
  std::pair<LargeBytes*, std::size_t> large_{};  // the large body or reply that is counted
  beast::flat_buffer buffer_;
  std::optional<beast::http::request_parser<beast::http::string_body>> parser_;
  beast::http::response<beast::http::string_body> response_;
  bool is_asking_ = false;               // the handler has not replied yet
  std::function<void()> gone_;           // of the request that the handler has
  std::shared_ptr<EventStream> events_;  // of a reply that stays open
  EventStream::Text sending_;            // the text that is being written
  std::array<char, 64> unexpected_{};
};

/// False: the descriptor is no socket of this family.
bool StartSession(asio::io_context& loop, platform::Fd connected, int family, std::string address, Holder holder,
                  const std::shared_ptr<Shared>& shared) {
  Protocol::socket socket(loop);
  beast::error_code error;
  socket.assign(Protocol(family, 0), connected.get(), error);
  if (error) return false;
  (void)connected.Release();
  std::make_shared<Session>(std::move(socket), family, std::move(address), std::move(holder), shared)->Read();
  return true;
}

/// Whether another connection from this address may be served. A holder of a token counts as an address.
bool HasPlace(const Shared& shared, const std::string& address) {
  if (shared.connections >= shared.limits.connections) return false;
  const auto others = shared.by_address.find(address);
  return others == shared.by_address.end() || others->second < shared.limits.connections_per_address;
}

/// A session whose reply is held outlives its connection, so that limits of connections alone do not bound sessions.
void AdoptInto(asio::io_context& loop, platform::Fd connected, const Holder& holder,
               const std::shared_ptr<Shared>& shared) {
  std::string name = HolderName(holder);
  if (!HasPlace(*shared, name)) return;
  (void)StartSession(loop, std::move(connected), AF_UNIX, std::move(name), holder, shared);
}

class AdoptingServer final : public Server {
 public:
  AdoptingServer(asio::io_context& loop, const Limits& limits, Handler handler)
      : loop_(loop), shared_(std::make_shared<Shared>(loop, limits, std::move(handler))) {}
  [[nodiscard]] std::uint16_t port() const override { return 0; }
  void Adopt(platform::Fd connected, const Holder& holder) override {
    AdoptInto(loop_, std::move(connected), holder, shared_);
  }

 private:
  asio::io_context& loop_;
  std::shared_ptr<Shared> shared_;
};

class Listening final : public Server {
 public:
  Listening(asio::io_context& loop, platform::Fd listener, int family, const Limits& limits, Handler handler)
      : loop_(loop),
        listener_(loop, listener.Release()),
        pause_(loop),
        family_(family),
        shared_(std::make_shared<Shared>(loop, limits, std::move(handler))) {
    if (family != AF_UNIX) port_ = PortOf(listener_.native_handle());
    Wait();
  }
  ~Listening() override {
    if (!unlink_.empty()) ::unlink(unlink_.c_str());
  }
  [[nodiscard]] std::uint16_t port() const override { return port_; }
  void Adopt(platform::Fd connected, const Holder& holder) override {
    AdoptInto(loop_, std::move(connected), holder, shared_);
  }
  void UnlinkAtEnd(std::string path) { unlink_ = std::move(path); }

 private:
  static std::uint16_t PortOf(int fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    char port[NI_MAXSERV] = "";
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0)
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, nullptr, 0, port, sizeof(port), NI_NUMERICSERV);
    return static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10));
  }
  /// The address without the port; empty for a Unix socket.
  static std::string AddressOf(const sockaddr_storage& from, socklen_t bytes) {
    char host[NI_MAXHOST] = "";
    if (from.ss_family != AF_INET && from.ss_family != AF_INET6) return {};
    ::getnameinfo(reinterpret_cast<const sockaddr*>(&from), bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
    return host;
  }
  void Wait() {
    listener_.async_wait(asio::posix::stream_descriptor::wait_read, [this](beast::error_code error) {
      if (error) return;
      AcceptSome();
    });
  }
  void AcceptSome() {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      sockaddr_storage from{};
      socklen_t from_bytes = sizeof from;
      platform::Fd accepted(::accept4(listener_.native_handle(), reinterpret_cast<sockaddr*>(&from), &from_bytes,
                                      SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!accepted) return AfterFailedAccept();
      std::string address = AddressOf(from, from_bytes);
      if (!HasPlace(*shared_, address)) continue;
      (void)StartSession(loop_, std::move(accepted), family_, std::move(address), {}, shared_);
    }
    Wait();
  }
  void AfterFailedAccept() {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return Wait();
    // For example, no descriptors are left. The socket then stays readable, so an immediate retry would spin.
    pause_.expires_after(kPauseAfterFailedAccept);
    pause_.async_wait([this](beast::error_code error) {
      if (!error) Wait();
    });
  }

  asio::io_context& loop_;
  asio::posix::stream_descriptor listener_;
  asio::steady_timer pause_;
  const int family_;
  std::shared_ptr<Shared> shared_;
  std::uint16_t port_ = 0;
  std::string unlink_;
};

}  // namespace

std::unique_ptr<Server> Server::Adopting(asio::io_context& loop, const Limits& limits, Handler handler) {
  return std::make_unique<AdoptingServer>(loop, limits, std::move(handler));
}

Result<std::unique_ptr<Server>> Server::ListenUnix(asio::io_context& loop, const std::string& path,
                                                   const Limits& limits, Handler handler) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Fail(Errc::kInvalidArgument,
                fmt::format("'{}' can't be a socket's path: 1 to {} bytes", path, sizeof(address.sun_path) - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  ::unlink(path.c_str());
  platform::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), 0660) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return Fail(Errc::kIo, fmt::format("listening on {}: {}", path, std::strerror(errno)));
  auto server = std::make_unique<Listening>(loop, std::move(fd), AF_UNIX, limits, std::move(handler));
  server->UnlinkAtEnd(path);
  return std::unique_ptr<Server>(std::move(server));
}

Result<std::unique_ptr<Server>> Server::ListenTcp(asio::io_context& loop, const std::string& host, std::uint16_t port,
                                                  const Limits& limits, Handler handler) {
  const std::string what = fmt::format("listening on {}:{}", host, port);
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    return Fail(Errc::kInvalidArgument, fmt::format("{}: {}; give an address of this machine", what,
                                                    error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  const int family = addresses->ai_family;
  platform::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      ::bind(fd.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
    return Fail(errno == EADDRINUSE ? Errc::kBusy : Errc::kIo, fmt::format("{}: {}", what, std::strerror(errno)));
  return std::unique_ptr<Server>(std::make_unique<Listening>(loop, std::move(fd), family, limits, std::move(handler)));
}

}  // namespace weir::http
