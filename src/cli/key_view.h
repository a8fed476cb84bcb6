// SPDX-License-Identifier: Apache-2.0
// A node's tokens, as `weir keys` shows them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "net/keys.h"

namespace weir::cli {

/// The default name of a node: its host name, with invalid characters replaced by '-'.
std::string NodeNameFrom(std::string_view host_name);

/// "good", "expired", "revoked".
std::string_view StateOf(const net::TokenRecord& token, std::int64_t now_s);

std::string TokensText(const std::vector<net::TokenRecord>& tokens, const std::string& folder, std::int64_t now_s,
                       bool color);
nlohmann::json TokensToJson(const std::vector<net::TokenRecord>& tokens, std::int64_t now_s);

}  // namespace weir::cli
