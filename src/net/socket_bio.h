// SPDX-License-Identifier: Apache-2.0
// OpenSSL's socket, but for one thing: writing to a connection that has ended raises no SIGPIPE, which would end the
// program. Only net's own sources include this.
#pragma once

#include "net/openssl.h"

namespace weir::net {

/// The socket stays the caller's.
Result<OpenSslPtr<BIO>> MakeSocketBio(int fd);

}  // namespace weir::net
