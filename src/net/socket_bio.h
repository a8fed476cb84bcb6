// SPDX-License-Identifier: Apache-2.0
// OpenSSL's socket BIO with one change: writing to a closed connection does not raise SIGPIPE, which would end the
// program. Only net's own sources include this.
#pragma once

#include "net/openssl.h"

namespace weir::net {

/// The caller keeps ownership of the socket.
Result<OpenSslPtr<BIO>> MakeSocketBio(int fd);

}  // namespace weir::net
