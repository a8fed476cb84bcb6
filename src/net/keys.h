// SPDX-License-Identifier: Apache-2.0
// A node's keys, and the tokens that it issues to tenants (docs/network.md, "Keys and tokens").
//
//   KEYS/ca.key   ca.pem     sign tokens; the key is used for nothing else
//   KEYS/node.key node.pem   prove the node's identity
//   KEYS/tokens              SERIAL NAME EXPIRY, one line for each issued token
//   KEYS/revoked             SERIAL NAME WHEN, one line for each revoked token
//
// NAME is a vGPU, or for a token of a cluster's manager ROLE:NAME.
//
// Every change is atomic, also on a full disk and after a crash. Only one process at a time changes the folder.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::net {

inline constexpr Duration kDay = seconds(86'400);

/// Checks the name of a vGPU. The daemon applies the same rule (engine::CheckName).
Status CheckKeyName(std::string_view name);

/// A file that is owned by this user or root and that no other user can read, such as a token.
Result<std::string> ReadSecret(const std::string& path);
/// Its first line, such as a password.
Result<std::string> ReadSecretLine(const std::string& path);

/// Formats seconds since 1970 as "2026-12-31 23:59:59 UTC".
std::string TimeText(std::int64_t unix_time_s);

/// Creates the folder `dir` with a node's keys. kAlreadyExists: `dir` already has content, which is left unchanged.
Status MakeNodeKeys(const std::string& dir, const std::string& node_name);
/// The path of the list of revoked tokens.
inline std::string RevokedFile(const std::string& dir) { return dir + "/revoked"; }
/// Whether the folder contains keys. The keys are not validated.
bool HasNodeKeys(const std::string& dir);

/// What the holder of a token is: a vGPU's tenant at a portal, or one of three at a cluster's manager.
enum class TokenRole { kVgpu, kOperator, kTenant, kNode };
inline constexpr std::array<std::string_view, 4> kTokenRoleNames{"vgpu", "operator", "tenant", "node"};
constexpr std::string_view NameOf(TokenRole role) { return kTokenRoleNames[static_cast<std::size_t>(role)]; }
std::optional<TokenRole> TokenRoleNamed(std::string_view name);
/// As the key folder records it: "NAME" of a vGPU, else "ROLE:NAME".
std::string RecordedName(TokenRole role, std::string_view name);

struct TokenRecord {
  std::string serial;
  std::string name;          // see RecordedName
  std::int64_t expires = 0;  // seconds since 1970
  bool revoked = false;
};

/// Of a recorded name.
struct TokenHolder {
  TokenRole role = TokenRole::kVgpu;
  std::string name;
};
TokenHolder HolderOf(const TokenRecord& record);

struct Token {
  // content of the token file: comments, the authority's certificate, the token's certificate and key
  std::string text;
  TokenRecord record;
};

/// Records the token before returning it. The token is valid from now on for `valid_for`, which is at least one second.
Result<Token> MakeToken(const std::string& dir, const std::string& name, Duration valid_for,
                        TokenRole role = TokenRole::kVgpu);
/// Tokens in the order in which they were issued.
Result<std::vector<TokenRecord>> ListTokens(const std::string& dir);
/// `what` is a serial, or a recorded name, which stands for all of its tokens. Returns the tokens that were valid until
/// now; the result is empty if all had been revoked before. A serial without a record is revoked as well. kNotFound:
/// `what` has no token.
Result<std::vector<TokenRecord>> Revoke(const std::string& dir, const std::string& what);

/// Makes a token with an arbitrary validity period. Also used by tests.
Result<Token> MakeTokenBetween(const std::string& dir, const std::string& name, std::int64_t begin_s,
                               std::int64_t expires_s, TokenRole role = TokenRole::kVgpu);

}  // namespace weir::net
