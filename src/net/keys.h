// SPDX-License-Identifier: Apache-2.0
// A node's keys, and the tokens that it gives to tenants (docs/network.md, "Keys and tokens").
//
//   KEYS/ca.key   ca.pem     sign tokens; nothing else uses the key
//   KEYS/node.key node.pem   how the node shows that it is itself
//   KEYS/tokens              SERIAL VGPU EXPIRY, a line for each token that was given
//   KEYS/revoked             SERIAL VGPU WHEN, a line for each that was taken back
//
// Every change is all or nothing, also on a full disk and after a crash; one process at a time makes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::net {

inline constexpr Duration kDay = seconds(86'400);

/// The rule of vGPUs' names, which the daemon has too (engine::CheckName).
Status CheckKeyName(std::string_view name);

/// "2026-12-31 23:59:59 UTC", of seconds since 1970.
std::string TimeText(std::int64_t unix_time_s);

/// Makes the folder `dir` with a node's keys. kAlreadyExists: something is there, and is left as it is.
Status MakeNodeKeys(const std::string& dir, const std::string& node_name);
/// Whether the folder has keys; they need not be good ones.
bool HasNodeKeys(const std::string& dir);

struct TokenRecord {
  std::string serial;
  std::string vgpu;
  std::int64_t expires = 0;  // in seconds since 1970
  bool revoked = false;
};

struct Token {
  std::string text;  // the file's content: comments, the authority's certificate, the token's, its key
  TokenRecord record;
};

/// The token is on record before it is returned. It is good from now on for `valid_for`, a second at least.
Result<Token> MakeToken(const std::string& dir, const std::string& vgpu, Duration valid_for);
/// In the order in which they were given.
Result<std::vector<TokenRecord>> ListTokens(const std::string& dir);
/// `what` is a serial or a vGPU, which means all of its tokens. Returns those that were good until now; none: they had
/// been revoked before. A serial that is on no record is revoked all the same. kNotFound: `what` has no token.
Result<std::vector<TokenRecord>> Revoke(const std::string& dir, const std::string& what);

/// For tests too: a token of any time.
Result<Token> MakeTokenBetween(const std::string& dir, const std::string& vgpu, std::int64_t begin_s,
                               std::int64_t expires_s);

}  // namespace weir::net
