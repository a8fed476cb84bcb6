// SPDX-License-Identifier: Apache-2.0
// Reading and writing certificates and keys (PEM).
#pragma once

#include <string>
#include <vector>

#include "net/openssl.h"

namespace weir::net {

/// Of each file here: some three hundred thousand tokens on record.
inline constexpr std::size_t kKeyFileBytesMax = 16 << 20;

/// A file that must be its owner's alone, and whose owner is this user or root. The message says what to do.
Result<std::string> ReadSecretFile(const std::string& path);
/// The same for a file that others may read but not write.
Result<std::string> ReadPublicFile(const std::string& path);

struct PemContent {
  std::vector<CertificatePtr> certificates;
  std::vector<KeyPtr> keys;
};
/// All that is in `text`; comments are passed over. `path` is for messages: kProtocol where a part is cut or damaged.
Result<PemContent> ReadPem(const std::string& text, const std::string& path);

Result<std::string> PemOf(X509& certificate);
Result<std::string> PemOf(EVP_PKEY& key);

/// kProtocol where there is not exactly one in the file.
Result<CertificatePtr> ReadCertificateFile(const std::string& path);
Result<KeyPtr> ReadKeyFile(const std::string& path);

}  // namespace weir::net
