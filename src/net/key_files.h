// SPDX-License-Identifier: Apache-2.0
// Reading and writing certificates and keys (PEM).
#pragma once

#include <string>
#include <vector>

#include "net/openssl.h"
#include "net/tls.h"

namespace weir::net {

/// Size limit of every key file, enough for about three hundred thousand token records.
inline constexpr std::size_t kKeyFileBytesMax = 16 << 20;

/// Reads a file that must be owned by this user or root and that no other user may access. The error says how to fix
/// it. `open`: how the file at `path` is opened; empty: by this process.
Result<std::string> ReadSecretFile(const std::string& path, const OpenFile& open = {});
/// Like ReadSecretFile, but other users may read the file. They must not be able to write it.
Result<std::string> ReadPublicFile(const std::string& path, const OpenFile& open = {});

struct PemContent {
  std::vector<CertificatePtr> certificates;
  std::vector<KeyPtr> keys;
};
/// Parses all certificates and keys in `text` and skips comments. `path` is used in messages. kProtocol: an entry is
/// truncated or damaged.
Result<PemContent> ReadPem(const std::string& text, const std::string& path);

Result<std::string> PemOf(X509& certificate);
Result<std::string> PemOf(EVP_PKEY& key);

/// kProtocol: the file does not contain exactly one certificate (or key).
Result<CertificatePtr> ReadCertificateFile(const std::string& path);
Result<KeyPtr> ReadKeyFile(const std::string& path);

}  // namespace weir::net
