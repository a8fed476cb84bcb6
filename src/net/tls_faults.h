// SPDX-License-Identifier: Apache-2.0
// Whom TLS lets in, and in words why it didn't. Only net's own sources include this.
#pragma once

#include <set>
#include <string>

#include "net/openssl.h"
#include "net/tls.h"

namespace weir::net {

/// What this side checks of the other's certificate, and what came out. Set as the SSL's app data.
struct PeerCheck {
  Role own_role = Role::kServer;
  std::set<std::string> revoked;  // of a server
  std::string name;               // the other side's, when it was let in
  std::string fault;              // why it was not
};

/// For SSL_CTX_set_verify.
int CheckPeer(int good, X509_STORE_CTX* store);

/// Why `returned` of SSL_do_handshake or SSL_read is not what it should be. `error_number` is errno after the call.
Error HandshakeError(const SSL& ssl, int returned, int error_number, const TlsIdentity& own, const std::string& peer);

}  // namespace weir::net
