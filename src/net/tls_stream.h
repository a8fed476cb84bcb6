// SPDX-License-Identifier: Apache-2.0
// Bytes over TLS. Only net's own sources include this.
#pragma once

#include <array>
#include <mutex>
#include <optional>

#include "net/openssl.h"
#include "net/stream.h"
#include "net/tcp_socket.h"
#include "net/tls.h"
#include "net/tls_faults.h"

namespace weir::net {

class TlsStream final : public Stream {
 public:
  explicit TlsStream(platform::Fd connected) : socket_(std::move(connected)) {}
  ~TlsStream() override { TlsStream::Shutdown(); }

  /// Until both sides know each other; before anything else, and once.
  Status Handshake(const TlsIdentity& own, PeerCheck check, Duration timeout);

  Result<std::size_t> TrySend(std::span<const iovec> parts) override;
  Result<std::size_t> TryReceive(std::span<std::byte> into) override;
  bool AwaitSend(Duration timeout) override;
  bool AwaitReceive(Duration timeout) override;
  void Shutdown() override;
  [[nodiscard]] const std::string& peer() const override { return socket_.peer(); }
  [[nodiscard]] const std::string& peer_name() const override { return check_.name; }

 private:
  static constexpr std::size_t kRecordBytes = 16384;  // the most that one of TLS holds

  class Cursor;
  enum class Outcome { kDone, kLater, kEnded };

  template <typename Step>
  Status Until(Instant deadline, const TlsIdentity& own, Step step);
  void LetRefusalArrive(Duration at_most) const;
  Outcome WriteRecord(const void* bytes, std::size_t size);
  Outcome ReadRecord(std::span<std::byte> into, std::size_t& came);
  Outcome AfterFailure(int returned, int error_number);

  TcpSocket socket_;
  PeerCheck check_;
  // An SSL is for one thread at a time. It is held for a record's length, and never while waiting.
  std::mutex mutex_;
  OpenSslPtr<SSL> ssl_;
  std::optional<Error> ended_;
  bool drained_ = false;            // OpenSSL holds a record's beginning at most
  bool receive_wants_out_ = false;  // a new key has to be sent before more can be received
  bool kernel_encrypts_ = false;
  // A record that OpenSSL has encrypted and the socket didn't take: its bytes aren't reported as taken until it has.
  bool flushing_ = false;
  std::size_t ahead_ = 0;  // bytes that OpenSSL has, and the caller hasn't been told about
  std::array<std::byte, kRecordBytes> record_{};
};

}  // namespace weir::net
