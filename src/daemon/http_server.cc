// SPDX-License-Identifier: Apache-2.0
#include "daemon/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>

#include "platform/unix_socket.h"

namespace weir::daemon {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Protocol = asio::local::stream_protocol;
using Stream = beast::basic_stream<Protocol>;

constexpr auto kIdleMax = std::chrono::seconds(30);

struct Shared {
  HttpHandler handler;
  std::size_t connections = 0;
};

/// One connection; lives as long as an operation of it is under way.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {
    ++shared_->connections;
    if (const auto peer = platform::PeerOf(stream_.socket().native_handle())) peer_ = *peer;
  }
  ~Session() { --shared_->connections; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void Read() {
    parser_.emplace();
    parser_->body_limit(kRequestBytesMax);
    parser_->header_limit(16 * 1024);
    stream_.expires_after(kIdleMax);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (error == http::error::end_of_stream || error == beast::error::timeout) return;
      if (error) return self->Write({400, "text/plain", "bad request: " + error.message() + "\n"}, false);
      self->Answer();
    });
  }

 private:
  void Answer() {
    const auto& message = parser_->get();
    const std::string target(message.target());
    const std::size_t question = target.find('?');
    const HttpRequest request{.method = std::string(message.method_string()),
                              .path = target.substr(0, question),
                              .query = question == std::string::npos ? "" : target.substr(question + 1),
                              .body = message.body(),
                              .peer_uid = peer_.uid,
                              .peer_pid = peer_.pid};
    Write(shared_->handler(request), message.keep_alive());
  }
  void Write(HttpReply reply, bool keep_alive) {
    response_ = {};
    response_.version(11);
    response_.result(reply.status);
    response_.set(http::field::server, "weir");
    response_.set(http::field::content_type, reply.content_type);
    response_.keep_alive(keep_alive);
    response_.body() = std::move(reply.body);
    response_.prepare_payload();
    stream_.expires_after(kIdleMax);
    http::async_write(stream_, response_,
                      [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
                        if (!error && keep_alive) return self->Read();
                        beast::error_code ignored;  // the other side may be gone already
                        self->stream_.socket().shutdown(Protocol::socket::shutdown_send, ignored);
                      });
  }

  Stream stream_;
  std::shared_ptr<Shared> shared_;
  platform::Peer peer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  http::response<http::string_body> response_;
};

class Server final : public HttpServer {
 public:
  Server(asio::io_context& loop, HttpHandler handler, std::string path)
      : acceptor_(loop), shared_(std::make_shared<Shared>(Shared{std::move(handler)})), path_(std::move(path)) {}
  ~Server() override { ::unlink(path_.c_str()); }

  Status Open() {
    ::unlink(path_.c_str());
    beast::error_code error;
    acceptor_.open(Protocol(), error);
    if (!error) acceptor_.bind(Protocol::endpoint(path_), error);
    if (!error && ::chmod(path_.c_str(), 0660) != 0) error = beast::error_code(errno, boost::system::system_category());
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return Fail(Errc::kIo, "listening on " + path_ + ": " + error.message());
    Accept();
    return Ok();
  }

 private:
  void Accept() {
    acceptor_.async_accept([this](beast::error_code error, Protocol::socket socket) {
      if (error == asio::error::operation_aborted) return;
      // Beyond the limit a connection is closed at once: those that are served stay served.
      if (!error && shared_->connections < kConnectionsMax)
        std::make_shared<Session>(std::move(socket), shared_)->Read();
      Accept();
    });
  }

  Protocol::acceptor acceptor_;
  std::shared_ptr<Shared> shared_;
  const std::string path_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(asio::io_context& loop, const std::string& path,
                                                       HttpHandler handler) {
  constexpr std::size_t kPathMax = 107;
  if (path.size() > kPathMax)
    return Fail(Errc::kInvalidArgument, "'" + path + "' is too long for a socket's path (107 bytes at most)");
  auto server = std::make_unique<Server>(loop, std::move(handler), path);
  WEIR_TRY_STATUS(server->Open());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace weir::daemon
