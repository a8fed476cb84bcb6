// SPDX-License-Identifier: Apache-2.0
// The content of a TlsIdentity. Only net's own sources include this.
#pragma once

#include <string>

#include "net/openssl.h"
#include "net/tls.h"

namespace weir::net {

struct TlsIdentity::Parts {
  OpenSslPtr<SSL_CTX> context;  // immutable, so that threads may create SSL objects from it concurrently
  std::string name;
  std::int64_t expires = 0;
  std::string keys_dir;   // a node's key folder; empty for a tenant
  OpenFile open_revoked;  // of a node; empty: opened by this process
  Admits admits = Admits::kVgpus;
};

}  // namespace weir::net
