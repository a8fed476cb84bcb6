// SPDX-License-Identifier: Apache-2.0
#include "http/tls/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "http/client.h"
#include "http/tls/tunnel.h"
#include "net/keys.h"
#include "net/tcp_stream.h"
#include "platform/clock.h"

namespace weir::http::tls {
namespace {

bool IsTlsToken(const std::string& text) { return text.find("-----BEGIN") != std::string::npos; }

Status CheckBearer(const std::string& text, const std::string& path) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
  if (text.size() >= 16 && plain) return Ok();
  return Fail(
      Errc::kInvalidArgument,
      fmt::format("{} is neither a token of 'weir keys token' nor a line of 16 or more visible characters, such "
                  "as 'openssl rand -hex 32' makes",
                  path));
}

}  // namespace

Result<Access> ReadAccess(const std::string& token_file) {
  WEIR_TRY(std::string text, net::ReadSecret(token_file));
  if (!IsTlsToken(text)) {
    text.erase(std::find(text.begin(), text.end(), '\n'), text.end());
    WEIR_TRY_STATUS(CheckBearer(text, token_file));
  }
  return AccessOf(text, token_file);
}

Result<Access> AccessOf(const std::string& text, const std::string& path) {
  if (!IsTlsToken(text)) return Access{.bearer = text};
  WEIR_TRY(net::TlsIdentity identity, net::TlsIdentity::OfTokenText(text, path));
  return Access{.identity = std::move(identity)};
}

Result<Answer> Ask(const std::string& host, std::uint16_t port, const Access& access, Call call, Duration timeout) {
  call.bearer = access.bearer;
  if (!access.identity) return AskTcp(host, port, call, timeout);
  const Instant until = platform::Now() + timeout;
  const auto left = [until] { return std::max<Duration>(until - platform::Now(), milliseconds(1)); };
  auto connected = net::ConnectSocket({host, std::to_string(port)}, left());
  if (!connected) {
    Error error = std::move(connected).error();
    if (!call.if_absent.empty()) error.message += "; " + call.if_absent;
    return error;
  }
  WEIR_TRY(const auto stream, net::StartTls(std::move(*connected), *access.identity, net::Role::kClient, left()));
  WEIR_TRY(SocketPair pair, MakeSocketPair());
  std::thread tunnel([&] {
    RunTunnel(*stream, pair.there);
    pair.there.Reset();  // the client below sees that the connection has ended
  });
  auto answer = AskOver(std::move(pair.here), fmt::format("{}:{}", host, port), call, left());
  stream->Shutdown();  // a server that does not read would keep the tunnel
  tunnel.join();
  return answer;
}

}  // namespace weir::http::tls
