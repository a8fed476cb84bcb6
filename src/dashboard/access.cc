// SPDX-License-Identifier: Apache-2.0
#include "dashboard/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "http/json_api.h"

namespace weir::dashboard {
namespace {

constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kQueryBytesMax = 512;
constexpr std::string_view kApi = "/api/";
constexpr std::uint16_t kDefaultPort = 80;  // browsers leave this port out of the Host line

/// A request that is answered. A '*' stands for one part of the path, a name.
struct Row {
  std::string_view methods;
  std::string_view path;
  Subject subject;
};
constexpr std::array kRows{
    Row{"GET", "/", Subject::kPage},
    Row{"GET", "/app.js", Subject::kPage},
    Row{"GET", "/app.css", Subject::kPage},
    Row{"GET", "/icon.svg", Subject::kPage},
    Row{"GET", "/api/stream", Subject::kStream},
    Row{"GET", "/api/history", Subject::kHistory},
    Row{"GET", "/api/v1/status", Subject::kControl},
    Row{"GET", "/api/v1/devices", Subject::kControl},
    Row{"GET", "/api/v1/policies", Subject::kControl},
    Row{"GET POST", "/api/v1/vgpus", Subject::kControl},
    Row{"GET PATCH DELETE", "/api/v1/vgpus/*", Subject::kControl},
    Row{"GET", "/api/v1/vgpus/*/frames", Subject::kControl},
    Row{"POST", "/api/v1/vgpus/*/pause", Subject::kControl},
    Row{"POST", "/api/v1/vgpus/*/resume", Subject::kControl},
    Row{"PUT", "/api/v1/devices/*/policy", Subject::kControl},
    Row{"PUT", "/api/v1/devices/*/oversell", Subject::kControl},
    Row{"GET PUT", "/api/v1/devices/*/memory", Subject::kControl},
};

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '~' || c == '%';
}

bool IsNamePart(std::string_view part) {
  return !part.empty() && part.size() <= kNameBytesMax && part != "." && part != ".." &&
         std::ranges::all_of(part, IsPlain);
}

bool IsPlainQuery(std::string_view query) {
  return query.size() <= kQueryBytesMax &&
         std::ranges::all_of(query, [](char c) { return IsPlain(c) || c == '=' || c == '&'; });
}

/// Compares exactly: no part is skipped, decoded or added.
bool PathMatches(std::string_view path, std::string_view pattern) {
  for (;;) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return path == pattern;
    if (!path.starts_with(pattern.substr(0, star))) return false;
    path.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    const std::size_t end = std::min(path.find('/'), path.size());
    if (!IsNamePart(path.substr(0, end))) return false;
    path.remove_prefix(end);
  }
}

bool HasMethod(std::string_view methods, std::string_view method) {
  while (!methods.empty()) {
    const std::size_t end = std::min(methods.find(' '), methods.size());
    if (methods.substr(0, end) == method) return true;
    methods.remove_prefix(std::min(end + 1, methods.size()));
  }
  return false;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

/// Whether a browser that was given this dashboard's address sends this Host line. With another name, a request arrives
/// here only if an attacker controls the name's DNS entry (DNS rebinding).
bool IsOurHost(const Site& site, const std::string& host) {
  const auto is = [&](const http::Address& address) {
    const std::string text = Lower(address.Text());
    return host == text ||
           (address.port == kDefaultPort && host == text.substr(0, text.size() - std::string_view(":80").size()));
  };
  const std::uint16_t port = site.listens.port;
  return is(site.listens) || is({"localhost", port}) || is({"127.0.0.1", port}) || is({"::1", port});
}

bool IsJson(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return Lower(type) == "application/json";
}

Decision Refusing(unsigned status, Errc code, std::string message) {
  return {.status = status, .code = code, .message = std::move(message), .target = {}};
}

/// The refusal by the checks that come before the table; empty: they accept the request.
std::optional<Decision> RefusalOfHead(const Site& site, const http::Request& head) {
  const std::string host = Lower(head.host);
  if (!IsOurHost(site, host))
    return Refusing(
        421, Errc::kInvalidArgument,
        fmt::format("'{}' is not the address of this dashboard; it is http://{}/", head.host, site.listens.Text()));
  if (!head.origin.empty() && Lower(head.origin) != "http://" + host)
    return Refusing(403, Errc::kPermissionDenied,
                    fmt::format("the page at '{}' may not use this dashboard", head.origin));
  const bool known = site.plain || (!site.token.empty() && http::SameToken(head.bearer, site.token));
  if (head.path.starts_with(kApi) && !known)
    return Refusing(401, Errc::kPermissionDenied,
                    "the token is missing or wrong; open the address that 'weir dashboard' prints");
  if (Changes(head.method) && head.has_body && !IsJson(head.content_type))
    return Refusing(415, Errc::kInvalidArgument,
                    fmt::format("the content type must be application/json, not '{}'", head.content_type));
  return std::nullopt;
}

}  // namespace

bool Changes(const std::string& method) { return method != "GET" && method != "HEAD"; }

Decision Decide(const Site& site, const http::Request& head) {
  if (auto refused = RefusalOfHead(site, head)) return std::move(*refused);
  const Row* row = nullptr;
  std::string others;
  for (const Row& one : kRows) {
    if (!PathMatches(head.path, one.path)) continue;
    if (HasMethod(one.methods, head.method)) row = &one;
    others = one.methods;
  }
  if (row == nullptr && !others.empty())
    return Refusing(405, Errc::kInvalidArgument, fmt::format("{} takes only {}", head.path, others));
  if (row == nullptr || (row->subject != Subject::kPage && !IsPlainQuery(head.query)))
    return Refusing(404, Errc::kNotFound,
                    fmt::format("no {} {} in this dashboard; see docs/dashboard.md", head.method, head.path));
  if (site.read_only && Changes(head.method))
    return Refusing(403, Errc::kPermissionDenied,
                    "this dashboard changes nothing: it was started with --read-only or --http-read-only");
  Decision decision{.message = {}, .subject = row->subject, .target = {}};
  if (row->subject == Subject::kControl) {
    decision.target = head.path.substr(kApi.size() - 1);
    if (!head.query.empty()) decision.target += "?" + head.query;
  }
  return decision;
}

http::Reply ReplyOf(const Decision& refusal) {
  http::Reply reply = http::ErrorReply(Fail(refusal.code, refusal.message));
  reply.status = refusal.status;
  return reply;
}

http::Reply TooLarge() {
  return ReplyOf(
      Refusing(413, Errc::kInvalidArgument, fmt::format("the body has more than {} KiB", kBodyBytesMax >> 10)));
}

}  // namespace weir::dashboard
