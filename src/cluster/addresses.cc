// SPDX-License-Identifier: Apache-2.0
#include "cluster/addresses.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "platform/files.h"

namespace weir::cluster {

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

}  // namespace weir::cluster
