// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 in which both sides' certificates are checked against the node's own authority: the client has a token of
// this node, and the server is this node. Host names and other authorities play no part.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"

namespace weir::net {

/// Opens a file for reading that this process's user may not open.
using OpenFile = std::function<Result<platform::Fd>()>;

/// The tokens that a server admits.
enum class Admits {
  kVgpus,    // those of vGPUs: a node's portal
  kCluster,  // those of operators, tenants and nodes: a cluster's manager
};

/// The identity of this side. Threads may share one; copies are cheap.
class TlsIdentity {
 public:
  /// A node's identity, from its key folder. The list of revoked tokens is read for each connection, everything else
  /// now. `open_revoked`: how the list is opened; empty: by this process.
  static Result<TlsIdentity> OfNode(const std::string& keys_dir, OpenFile open_revoked = {},
                                    Admits admits = Admits::kVgpus);
  /// A tenant's identity, from its token file. An expired token is accepted here, because the node's clock decides.
  /// `open`: how the file is opened; empty: by this process.
  static Result<TlsIdentity> OfToken(const std::string& token_file, const OpenFile& open = {});
  /// The same from the file's text. `path` is for messages.
  static Result<TlsIdentity> OfTokenText(const std::string& text, const std::string& path);

  /// The node's name, or the vGPU's.
  [[nodiscard]] const std::string& name() const;
  /// Seconds since 1970.
  [[nodiscard]] std::int64_t expires() const;

  struct Parts;
  [[nodiscard]] const Parts& parts() const { return *parts_; }  // for net's own sources

 private:
  explicit TlsIdentity(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;
};

enum class Role { kServer, kClient };

/// Both sides have authenticated each other when this returns. The server's first byte tells the client that its token
/// was accepted; a refusal is therefore an error of this call and not a later failure of the stream. Blocks for at most
/// `timeout`.
///
/// kPermissionDenied: one side refused the other's certificate. kProtocol: the peer does not speak TLS, or not Weir's
/// protocol. kTimeout, kUnavailable: the peer did not answer, or closed the connection.
///
/// When the stream's TrySend accepts fewer bytes than it was given, the caller must pass the remaining bytes unchanged
/// next, because some of them may already be encrypted.
Result<std::unique_ptr<Stream>> StartTls(platform::Fd connected, const TlsIdentity& identity, Role role,
                                         Duration timeout);

}  // namespace weir::net
