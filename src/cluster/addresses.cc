// SPDX-License-Identifier: Apache-2.0
#include "cluster/addresses.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "platform/files.h"

namespace weir::cluster {

Result<Address> ParseAddress(const std::string& text) {
  const Error bad = Fail(Errc::kInvalidArgument, fmt::format("'{}' is not HOST:PORT", text));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) return bad;
  Address address{.host = text.substr(0, colon)};
  if (address.host.front() == '[') {
    if (address.host.size() < 3 || address.host.back() != ']') return bad;
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return bad;
  }
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc() || at != end) return bad;
  return address;
}

Result<std::vector<Address>> ParseAddresses(const std::string& text) {
  std::vector<Address> all;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    WEIR_TRY(Address address, ParseAddress(text.substr(begin, end - begin)));
    all.push_back(std::move(address));
    begin = end + 1;
  }
  return all;
}

bool IsLoopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

Result<std::string> ReadTokenFile(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
    return Fail(Errc::kPermissionDenied,
                fmt::format("other users can read the token in {}: 'chmod 600 {}'", path, path));
  auto token = platform::ReadFile(path, 4096);
  if (!token) return token;
  token->erase(std::find(token->begin(), token->end(), '\n'), token->end());
  const bool plain = std::ranges::all_of(*token, [](char c) { return c > ' ' && c < 0x7F; });
  if (token->size() < 16 || !plain)
    return Fail(Errc::kInvalidArgument,
                fmt::format("the first line of {} must be a token of 16 or more visible characters, such as "
                            "'openssl rand -hex 32' makes",
                            path));
  return token;
}

bool SameToken(const std::string& given, const std::string& ours) {
  unsigned differ = given.size() == ours.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    differ |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(ours[i % ours.size()]);
  return differ == 0;
}

}  // namespace weir::cluster
