// SPDX-License-Identifier: Apache-2.0
#include "net/stream.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "platform/clock.h"

namespace weir::net {
namespace {

Error NotAnEndpoint(std::string_view text, std::string_view why) {
  return Fail(
      Errc::kInvalidArgument,
      fmt::format("'{}' is not a host and port: {}; write node:7700, 10.0.0.1:7700, [::1]:7700 or :7700", text, why));
}

bool IsPort(std::string_view text) {
  unsigned number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && stop == text.data() + text.size() && number <= 65535;
}

bool IsIpv6Address(std::string_view text) {
  in6_addr parsed{};
  const std::string address(text.substr(0, text.find('%')));  // fe80::1%eth0
  return ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

/// The rest of `timeout` for SendAll and ReceiveAll, when the last progress was at `last`.
Duration LeftOf(Duration timeout, Instant last) {
  return std::max(timeout - (platform::Now() - last), Duration::zero());
}

}  // namespace

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return NotAnEndpoint(text, "no port");
  const std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  if (!IsPort(port)) return NotAnEndpoint(text, "the port is not a number up to 65535");
  if (host.starts_with('[') && host.ends_with(']')) {
    const std::string_view address = host.substr(1, host.size() - 2);
    if (!IsIpv6Address(address)) return NotAnEndpoint(text, "the text between [ and ] is not an IPv6 address");
    return Endpoint{std::string(address), std::string(port)};
  }
  if (host.find(':') != std::string_view::npos) return NotAnEndpoint(text, "an IPv6 address must be between [ and ]");
  if (!std::all_of(host.begin(), host.end(), IsHostCharacter))
    return NotAnEndpoint(text, "a host is letters, digits, '.', '-' and '_'");
  return Endpoint{std::string(host), std::string(port)};
}

Result<std::size_t> Stream::TrySendFile(int /*fd*/, std::uint64_t /*offset*/, std::size_t /*bytes*/) {
  return Fail(Errc::kInternal, "files are not sent to " + peer());
}

Status SendAll(Stream& stream, std::span<const std::byte> bytes, Duration timeout) {
  Instant last = platform::Now();
  while (!bytes.empty()) {
    const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    WEIR_TRY(const std::size_t taken, stream.TrySend(std::span(&part, 1)));
    bytes = bytes.subspan(taken);
    if (taken > 0)
      last = platform::Now();
    else if (!stream.AwaitSend(LeftOf(timeout, last)))
      return Fail(Errc::kTimeout,
                  fmt::format("{} accepts no more data, with {} bytes left to send", stream.peer(), bytes.size()));
  }
  return Ok();
}

Status ReceiveAll(Stream& stream, std::span<std::byte> into, Duration timeout, Duration in_all) {
  const Instant begin = platform::Now();
  Instant last = begin;
  while (!into.empty()) {
    WEIR_TRY(const std::size_t came, stream.TryReceive(into));
    into = into.subspan(came);
    if (came > 0) last = platform::Now();
    if (into.empty()) break;
    const Duration left = std::min(LeftOf(timeout, last), LeftOf(in_all, begin));
    if (came > 0 ? left > Duration::zero() : stream.AwaitReceive(left)) continue;
    return Fail(Errc::kTimeout,
                fmt::format("no more data came from {}, with {} bytes missing", stream.peer(), into.size()));
  }
  return Ok();
}

}  // namespace weir::net
