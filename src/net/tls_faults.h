// SPDX-License-Identifier: Apache-2.0
// The check of a peer's certificate, and readable reasons for a refusal. Only net's own sources include this.
#pragma once

#include <set>
#include <string>

#include "net/openssl.h"
#include "net/tls.h"

namespace weir::net {

/// The expectations for the peer's certificate, and the result of the check. Set as the SSL's app data.
struct PeerCheck {
  Role own_role = Role::kServer;
  std::set<std::string> revoked;  // serials; only a server fills this
  Admits admits = Admits::kVgpus;
  std::string name;                   // the peer's name if it was accepted
  TokenRole role = TokenRole::kVgpu;  // of a client that was accepted
  std::string fault;                  // the reason if it was refused
};

/// Callback for SSL_CTX_set_verify.
int CheckPeer(int good, X509_STORE_CTX* store);

/// Explains the result `returned` of a failed SSL_do_handshake or SSL_read. `error_number` is errno after the call.
Error HandshakeError(const SSL& ssl, int returned, int error_number, const TlsIdentity& own, const std::string& peer);

}  // namespace weir::net
