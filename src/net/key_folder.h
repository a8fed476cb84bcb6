// SPDX-License-Identifier: Apache-2.0
// The records in a node's key folder: the tokens that were issued and those that were revoked.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "net/keys.h"
#include "net/tls.h"
#include "platform/fd.h"

namespace weir::net {

/// Exclusive access to a key folder. Other processes that want to change it wait.
class KeyFolder {
 public:
  /// kNotFound: the folder has no keys. The message says how to create them.
  static Result<KeyFolder> Lock(const std::string& dir);

  [[nodiscard]] std::string operator/(const std::string& name) const { return dir_ + "/" + name; }
  /// Returns all issued tokens; `revoked` is filled in.
  [[nodiscard]] Result<std::vector<TokenRecord>> Tokens() const;
  [[nodiscard]] Status AddToken(const TokenRecord& record) const;
  [[nodiscard]] Status AddRevoked(const std::vector<TokenRecord>& records, std::int64_t now_s) const;

 private:
  KeyFolder(std::string dir, platform::Fd fd) : dir_(std::move(dir)), fd_(std::move(fd)) {}
  [[nodiscard]] Status Append(const std::string& name, const std::string& lines) const;

  std::string dir_;
  platform::Fd fd_;  // holds the lock
};

/// The serials in KEYS/revoked. A missing or damaged list is an error, because any serial may have been on it.
Result<std::set<std::string>> ReadRevoked(const std::string& dir, const OpenFile& open = {});

bool IsSerial(std::string_view text);

}  // namespace weir::net
