// SPDX-License-Identifier: Apache-2.0
// What a TlsIdentity holds. Only net's own sources include this.
#pragma once

#include <string>

#include "net/openssl.h"
#include "net/tls.h"

namespace weir::net {

struct TlsIdentity::Parts {
  OpenSslPtr<SSL_CTX> context;  // not changed any more: threads may make an SSL of it at the same time
  std::string name;
  std::int64_t expires = 0;
  std::string keys_dir;  // a node's; empty: a tenant's
};

}  // namespace weir::net
