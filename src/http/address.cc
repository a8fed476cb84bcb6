// SPDX-License-Identifier: Apache-2.0
#include "http/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <charconv>

namespace weir::http {

std::string Address::Text() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

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

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string ProblemOfPage(const Address& address, bool plain) {
  in_addr v4{};
  in6_addr v6{};
  const bool all = (::inet_pton(AF_INET, address.host.c_str(), &v4) == 1 && v4.s_addr == INADDR_ANY) ||
                   (::inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
  if (all) return fmt::format("'{}' is all addresses; give the one by which browsers reach this machine", address.host);
  if (plain && !IsLoopback(address.host))
    return fmt::format("'{}' can be reached from other machines; without a token only loopback addresses are served",
                       address.host);
  return {};
}

bool SameToken(const std::string& given, const std::string& ours) {
  unsigned differ = given.size() == ours.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && !ours.empty(); ++i)
    differ |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(ours[i % ours.size()]);
  return differ == 0;
}

}  // namespace weir::http
