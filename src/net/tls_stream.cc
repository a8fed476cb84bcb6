// SPDX-License-Identifier: Apache-2.0
#include "net/tls_stream.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket_bio.h"
#include "net/tls_identity.h"
#include "platform/clock.h"

namespace weir::net {
namespace {

/// The server's first byte says that it has accepted the client's certificate. TLS 1.3 itself has no such message.
constexpr unsigned char kLetIn = 'W';

/// The amount that one call transfers before the other direction gets its turn.
constexpr std::size_t kBytesPerCall = 1 << 20;

std::size_t TotalOf(std::span<const iovec> parts) {
  std::size_t total = 0;
  for (const iovec& part : parts) total += part.iov_len;
  return total;
}

Duration LeftUntil(Instant deadline) { return std::max(deadline - platform::Now(), Duration::zero()); }

}  // namespace

/// A position in the data that the caller wants to send.
class TlsStream::Cursor {
 public:
  explicit Cursor(std::span<const iovec> parts) : parts_(parts) {}

  void Skip(std::size_t count) {
    while (count > 0) {
      const std::size_t step = std::min(count, parts_.front().iov_len - offset_);
      Advance(step);
      count -= step;
    }
  }

  /// Returns the next record and moves past it. The record is gathered into `room`. It is returned in place if
  /// gathering would not make it larger and `must_copy` is false.
  std::span<const std::byte> Take(std::span<std::byte> room, bool must_copy) {
    while (!parts_.empty() && parts_.front().iov_len == offset_) Advance(0);
    if (parts_.empty()) return {};
    const std::size_t here = parts_.front().iov_len - offset_;
    if (!must_copy && (here >= room.size() || parts_.size() == 1)) {
      const std::span<const std::byte> direct(At(), std::min(here, room.size()));
      Advance(direct.size());
      return direct;
    }
    std::size_t filled = 0;
    while (!parts_.empty() && filled < room.size()) {
      const std::size_t step = std::min(room.size() - filled, parts_.front().iov_len - offset_);
      if (step > 0) std::memcpy(room.data() + filled, At(), step);
      filled += step;
      Advance(step);
    }
    return room.first(filled);
  }

 private:
  [[nodiscard]] const std::byte* At() const { return static_cast<const std::byte*>(parts_.front().iov_base) + offset_; }
  void Advance(std::size_t step) {
    offset_ += step;
    if (offset_ < parts_.front().iov_len) return;
    parts_ = parts_.subspan(1);
    offset_ = 0;
  }

  std::span<const iovec> parts_;
  std::size_t offset_ = 0;
};

/// Repeats `step`, which returns OpenSSL's result, until that is 1.
template <typename Step>
Status TlsStream::Until(Instant deadline, const TlsIdentity& own, Step step) {
  for (;;) {
    ERR_clear_error();
    errno = 0;
    const int returned = step();
    const int error_number = errno;
    if (returned == 1) return Ok();
    const int kind = SSL_get_error(ssl_.get(), returned);
    if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE)
      return HandshakeError(*ssl_, returned, error_number, own, peer());
    const short events = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    if (!socket_.Await(events, LeftUntil(deadline)))
      return Fail(Errc::kTimeout, fmt::format("{} has not authenticated in time", peer()));
  }
}

/// Closing a socket with unread data sends a reset, and the peer would see the reset before it reads the refusal. This
/// drains the socket first.
void TlsStream::LetRefusalArrive(Duration at_most) const {
  constexpr std::size_t kRestMax = 64 << 10;
  const Instant deadline = platform::Now() + std::min<Duration>(at_most, seconds(1));
  ::shutdown(socket_.fd(), SHUT_WR);
  char rest[4096];
  for (std::size_t read = 0; read < kRestMax;) {
    pollfd entry{socket_.fd(), POLLIN, 0};
    const auto left = std::chrono::ceil<milliseconds>(LeftUntil(deadline));
    if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) return;
    const ssize_t came = ::recv(socket_.fd(), rest, sizeof rest, MSG_DONTWAIT);
    if (came <= 0) return;
    read += static_cast<std::size_t>(came);
  }
}

Status TlsStream::Handshake(const TlsIdentity& own, PeerCheck check, Duration timeout) {
  const Instant deadline = platform::Now() + timeout;
  check_ = std::move(check);
  ssl_.reset(SSL_new(own.parts().context.get()));
  if (!ssl_) return OpenSslError("starting TLS");
  SSL* ssl = ssl_.get();
  SSL_set_app_data(ssl, &check_);
  WEIR_TRY(OpenSslPtr<BIO> bio, MakeSocketBio(socket_.fd()));
  BIO* both = bio.release();
  SSL_set_bio(ssl, both, both);
  const bool is_server = check_.own_role == Role::kServer;
  is_server ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
  Status status = Until(deadline, own, [ssl] { return SSL_do_handshake(ssl); });
  unsigned char let_in = kLetIn;
  if (status)
    status = Until(deadline, own, [&] { return is_server ? SSL_write(ssl, &let_in, 1) : SSL_read(ssl, &let_in, 1); });
  if (status && let_in != kLetIn) status = Fail(Errc::kProtocol, peer() + " doesn't speak as a node does");
  if (status) {
    kernel_encrypts_ = BIO_get_ktls_send(SSL_get_wbio(ssl)) != 0;
    return status;
  }
  ended_ = status.error();
  if (status.error().code != Errc::kTimeout && status.error().code != Errc::kUnavailable)
    LetRefusalArrive(LeftUntil(deadline));
  return status;
}

TlsStream::Outcome TlsStream::AfterFailure(int returned, int error_number) {
  switch (SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return Outcome::kLater;
    case SSL_ERROR_ZERO_RETURN: ended_ = socket_.EndedBy(0); break;
    case SSL_ERROR_SYSCALL: ended_ = socket_.EndedBy(error_number == 0 ? ECONNRESET : error_number); break;
    default:
      if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        ended_ = socket_.EndedBy(ECONNRESET);  // the end of the stream is not authenticated: data may be missing
      else
        ended_ = OpenSslError("the connection to " + peer() + " is damaged", Errc::kUnavailable);
  }
  ERR_clear_error();
  return Outcome::kEnded;
}

TlsStream::Outcome TlsStream::WriteRecord(const void* bytes, std::size_t size) {
  ERR_clear_error();
  errno = 0;
  const int returned = SSL_write(ssl_.get(), bytes, static_cast<int>(size));
  if (returned > 0) return Outcome::kDone;
  return AfterFailure(returned, errno);
}

TlsStream::Outcome TlsStream::ReadRecord(std::span<std::byte> into, std::size_t& came) {
  ERR_clear_error();
  errno = 0;
  const int returned =
      SSL_read(ssl_.get(), into.data(), static_cast<int>(std::min<std::size_t>(into.size(), kBytesPerCall)));
  const int error_number = errno;
  if (returned > 0) {
    came = static_cast<std::size_t>(returned);
    drained_ = false;
    return Outcome::kDone;
  }
  receive_wants_out_ = SSL_get_error(ssl_.get(), returned) == SSL_ERROR_WANT_WRITE;
  drained_ = true;
  return AfterFailure(returned, error_number);
}

Result<std::size_t> TlsStream::TrySend(std::span<const iovec> parts) {
  const std::size_t total = TotalOf(parts);
  Cursor cursor(parts);
  std::size_t taken = 0;
  for (bool first = true; first || (taken < total && taken < kBytesPerCall); first = false) {
    const std::lock_guard lock(mutex_);
    if (socket_.is_shut()) return socket_.EndedBy(0);
    if (ended_) return *ended_;
    Outcome outcome = Outcome::kDone;
    // OpenSSL keeps the bytes of a record that it could not send, and checks only the length of a retry. Kernel TLS
    // reads the bytes again, so record_ keeps them.
    if (flushing_) outcome = WriteRecord(record_.data(), ahead_);
    if (outcome == Outcome::kDone) {
      flushing_ = false;
      const std::size_t skipped = std::min(ahead_, total - taken);
      cursor.Skip(skipped);
      ahead_ -= skipped;
      taken += skipped;
      if (taken == total) break;
      const std::span<const std::byte> record = cursor.Take(record_, kernel_encrypts_);
      outcome = WriteRecord(record.data(), record.size());
      if (outcome == Outcome::kDone) taken += record.size();
      if (outcome == Outcome::kLater) {
        flushing_ = true;
        ahead_ = record.size();
      }
    }
    if (outcome == Outcome::kEnded) {
      if (taken == 0) return *ended_;
      break;
    }
    if (outcome == Outcome::kLater) break;
  }
  return taken;
}

Result<std::size_t> TlsStream::TryReceive(std::span<std::byte> into) {
  std::size_t filled = 0;
  while (filled < into.size() && filled < kBytesPerCall) {
    const std::lock_guard lock(mutex_);
    if (socket_.is_shut()) return socket_.EndedBy(0);
    if (ended_) {
      if (filled == 0) return *ended_;
      break;
    }
    std::size_t came = 0;
    if (ReadRecord(into.subspan(filled), came) == Outcome::kLater) break;
    filled += came;
  }
  return filled;
}

bool TlsStream::AwaitSend(Duration timeout) { return socket_.Await(POLLOUT, timeout); }

bool TlsStream::AwaitReceive(Duration timeout) {
  short events = POLLIN;
  {
    const std::lock_guard lock(mutex_);
    if (ended_ || (!drained_ && SSL_has_pending(ssl_.get()) == 1)) return true;
    if (receive_wants_out_) events |= POLLOUT;
  }
  return socket_.Await(events, timeout);
}

void TlsStream::Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    if (ssl_ && !ended_ && !socket_.is_shut() && SSL_is_init_finished(ssl_.get()) == 1) {
      SSL_shutdown(ssl_.get());  // sends close_notify without waiting for the peer's
      ERR_clear_error();
    }
  }
  socket_.Shutdown();
}

}  // namespace weir::net
