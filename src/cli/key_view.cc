// SPDX-License-Identifier: Apache-2.0
#include "cli/key_view.h"

#include <nlohmann/json.hpp>

#include "cli/common/table.h"

namespace weir::cli {

std::string NodeNameFrom(std::string_view host_name) {
  constexpr std::size_t kNameBytesMax = 63;
  std::string name;
  for (const char c : host_name.substr(0, kNameBytesMax)) {
    const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      ((c == '.' || c == '-') && !name.empty());
    if (fits)
      name += c;
    else if (!name.empty())
      name += '-';
  }
  return name.empty() ? "node" : name;
}

std::string_view StateOf(const net::TokenRecord& token, std::int64_t now_s) {
  return token.revoked ? "revoked" : token.expires < now_s ? "expired" : "good";
}

std::string TokensText(const std::vector<net::TokenRecord>& tokens, const std::string& folder, std::int64_t now_s,
                       bool color) {
  if (tokens.empty()) return "no tokens in " + folder + "; make one with 'weir keys token VGPU'\n";
  Table table({{"SERIAL"}, {"FOR"}, {"EXPIRES"}, {"STATE"}});
  for (const net::TokenRecord& token : tokens) {
    const std::string state(StateOf(token, now_s));
    table.Add({{token.serial},
               {token.name, Style::kStrong},
               {net::TimeText(token.expires)},
               {state, state == "good" ? Style::kGood : Style::kFaint}});
  }
  return table.Render(color) + "\nrecorded in " + folder + "\n";
}

nlohmann::json TokensToJson(const std::vector<net::TokenRecord>& tokens, std::int64_t now_s) {
  nlohmann::json list = nlohmann::json::array();
  for (const net::TokenRecord& token : tokens) {
    nlohmann::json entry{{"serial", token.serial}, {"expires_unix_s", token.expires}, {"state", StateOf(token, now_s)}};
    if (const net::TokenHolder holder = net::HolderOf(token); holder.role == net::TokenRole::kVgpu) {
      entry["vgpu"] = holder.name;
    } else {
      entry["role"] = NameOf(holder.role);
      entry["name"] = holder.name;
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace weir::cli
