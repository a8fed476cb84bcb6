// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with both sides' certificates checked against the node's own authority: who connects has a token of this
// node, and who answers is this node. Names of hosts don't matter, and nobody else's authorities do.
#pragma once

#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"

namespace weir::net {

/// Who this side is. Threads may share one; copies are cheap.
class TlsIdentity {
 public:
  /// A node's, from its key folder. Its list of revoked tokens is read for each connection, all else now.
  static Result<TlsIdentity> OfNode(const std::string& keys_dir);
  /// A tenant's, from its token file. One that has expired is not refused here: the node's clock decides.
  static Result<TlsIdentity> OfToken(const std::string& token_file);

  /// The node's name, or the vGPU's.
  [[nodiscard]] const std::string& name() const;
  /// In seconds since 1970.
  [[nodiscard]] std::int64_t expires() const;

  struct Parts;
  [[nodiscard]] const Parts& parts() const { return *parts_; }  // for net's own sources

 private:
  explicit TlsIdentity(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

enum class Role { kServer, kClient };

/// Both sides know each other when this returns: the server's first byte tells the client that it was let in, so that a
/// refusal is an error here, in words, and not of a stream that seemed good. Blocks for `timeout` at most.
///
/// kPermissionDenied: one side refused the other's certificate. kProtocol: what came is not TLS, or not ours.
/// kTimeout, kUnavailable: the other side said nothing, or went.
///
/// A caller to whom the stream's TrySend returned less than was given comes with the same bytes next: some of them may
/// be encrypted already.
Result<std::unique_ptr<Stream>> StartTls(platform::Fd connected, const TlsIdentity& identity, Role role,
                                         Duration timeout);

}  // namespace weir::net
