// SPDX-License-Identifier: Apache-2.0
// A node's keys, and the tokens that it issues to tenants (docs/network.md, "Keys and tokens").
//
//   KEYS/ca.key   ca.pem     sign tokens; the key is used for nothing else
//   KEYS/node.key node.pem   prove the node's identity
//   KEYS/tokens              SERIAL VGPU EXPIRY, one line for each issued token
//   KEYS/revoked             SERIAL VGPU WHEN, one line for each revoked token
//
// Every change is atomic, also on a full disk and after a crash. Only one process at a time changes the folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::net {

inline constexpr Duration kDay = seconds(86'400);

/// Checks the name of a vGPU. The daemon applies the same rule (engine::CheckName).
Status CheckKeyName(std::string_view name);

/// Formats seconds since 1970 as "2026-12-31 23:59:59 UTC".
std::string TimeText(std::int64_t unix_time_s);

/// Creates the folder `dir` with a node's keys. kAlreadyExists: `dir` already has content, which is left unchanged.
Status MakeNodeKeys(const std::string& dir, const std::string& node_name);
/// The path of the list of revoked tokens.
inline std::string RevokedFile(const std::string& dir) { return dir + "/revoked"; }
/// Whether the folder contains keys. The keys are not validated.
bool HasNodeKeys(const std::string& dir);

struct TokenRecord {
  std::string serial;
  std::string vgpu;
  std::int64_t expires = 0;  // seconds since 1970
  bool revoked = false;
};

struct Token {
  // content of the token file: comments, the authority's certificate, the token's certificate and key
  std::string text;
  TokenRecord record;
};

/// Records the token before returning it. The token is valid from now on for `valid_for`, which is at least one second.
Result<Token> MakeToken(const std::string& dir, const std::string& vgpu, Duration valid_for);
/// Tokens in the order in which they were issued.
Result<std::vector<TokenRecord>> ListTokens(const std::string& dir);
/// `what` is a serial, or a vGPU, which stands for all of its tokens. Returns the tokens that were valid until now; the
/// result is empty if all had been revoked before. A serial without a record is revoked as well. kNotFound: `what` has
/// no token.
Result<std::vector<TokenRecord>> Revoke(const std::string& dir, const std::string& what);

/// Makes a token with an arbitrary validity period. Also used by tests.
Result<Token> MakeTokenBetween(const std::string& dir, const std::string& vgpu, std::int64_t begin_s,
                               std::int64_t expires_s);

}  // namespace weir::net
