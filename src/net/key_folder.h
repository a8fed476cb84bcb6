// SPDX-License-Identifier: Apache-2.0
// The lists in a node's key folder: which tokens were given, and which were taken back.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "net/keys.h"
#include "platform/fd.h"

namespace weir::net {

/// The folder while this process changes it; others wait.
class KeyFolder {
 public:
  /// kNotFound where there are no keys: the message says how to make them.
  static Result<KeyFolder> Lock(const std::string& dir);

  [[nodiscard]] std::string operator/(const std::string& name) const { return dir_ + "/" + name; }
  /// Whether each is revoked is said too.
  [[nodiscard]] Result<std::vector<TokenRecord>> Tokens() const;
  [[nodiscard]] Status AddToken(const TokenRecord& record) const;
  [[nodiscard]] Status AddRevoked(const std::vector<TokenRecord>& records, std::int64_t now_s) const;

 private:
  KeyFolder(std::string dir, platform::Fd fd) : dir_(std::move(dir)), fd_(std::move(fd)) {}
  [[nodiscard]] Status Append(const std::string& name, const std::string& lines) const;

  std::string dir_;
  platform::Fd fd_;  // holds the lock
};

/// The serials in KEYS/revoked. A list that is missing or damaged is an error: it may have named anybody.
Result<std::set<std::string>> ReadRevoked(const std::string& dir);

bool IsSerial(std::string_view text);

}  // namespace weir::net
