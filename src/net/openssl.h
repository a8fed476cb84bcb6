// SPDX-License-Identifier: Apache-2.0
// Owning pointers for OpenSSL's objects, and conversion of its errors. Only net's own sources include this.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/keys.h"

namespace weir::net {

struct OpenSslFree {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};
template <typename T>
using OpenSslPtr = std::unique_ptr<T, OpenSslFree>;

using KeyPtr = OpenSslPtr<EVP_PKEY>;
using CertificatePtr = OpenSslPtr<X509>;

/// "attempted: text of OpenSSL's error queue". Empties the queue.
Error OpenSslError(std::string_view attempted, Errc code = Errc::kInternal);

/// What a certificate is for. Both sides check the kind, so that a token cannot act as a node or the reverse.
enum class CertificateKind { kAuthority, kNode, kToken, kOther };
CertificateKind KindOf(X509& certificate);

/// The text of a token's certificate that names its role.
const char* OrganizationOf(TokenRole role);
/// Empty: a certificate that Weir does not issue.
std::optional<TokenRole> RoleOf(const X509& certificate);

/// The name of a vGPU or of a node. Empty: the certificate has no valid name.
std::string NameOf(const X509& certificate);
/// Sixteen hexadecimal digits for certificates that Weir issued.
std::string SerialOf(const X509& certificate);
/// Seconds since 1970; 0 if the certificate's time is invalid.
std::int64_t ExpiryOf(const X509& certificate);
std::int64_t BeginOf(const X509& certificate);

}  // namespace weir::net
