// SPDX-License-Identifier: Apache-2.0
// A stream over TLS. Only net's own sources include this.
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

  /// Runs until both sides have authenticated each other. Called once, before anything else.
  Status Handshake(const TlsIdentity& own, PeerCheck check, Duration timeout);

  Result<std::size_t> TrySend(std::span<const iovec> parts) override;
  Result<std::size_t> TryReceive(std::span<std::byte> into) override;
  bool AwaitSend(Duration timeout) override;
  bool AwaitReceive(Duration timeout) override;
  void Shutdown() override;
  [[nodiscard]] const std::string& peer() const override { return socket_.peer(); }
  [[nodiscard]] const std::string& peer_name() const override { return check_.name; }
  [[nodiscard]] TokenRole peer_role() const override { return check_.role; }
  [[nodiscard]] int fd() const override { return socket_.fd(); }

 private:
  static constexpr std::size_t kRecordBytes = 16384;  // the maximum size of a TLS record

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
  // An SSL is for one thread at a time. The lock is held for at most one record, and never while waiting.
  std::mutex mutex_;
  OpenSslPtr<SSL> ssl_;
  std::optional<Error> ended_;
  bool drained_ = false;            // OpenSSL holds at most the beginning of a record
  bool receive_wants_out_ = false;  // a key update has to be sent before more can be received
  bool kernel_encrypts_ = false;
  // OpenSSL has encrypted a record that the socket did not accept. Its bytes are reported as sent once the socket has
  // them.
  bool flushing_ = false;
  std::size_t ahead_ = 0;  // bytes that OpenSSL has accepted and that are not yet reported to the caller
  std::array<std::byte, kRecordBytes> record_{};
};

}  // namespace weir::net
