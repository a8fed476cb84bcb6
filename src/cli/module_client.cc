// SPDX-License-Identifier: Apache-2.0
#include "cli/module_client.h"

#include <fmt/format.h>

#include <charconv>
#include <thread>

#include "cli/text_units.h"
#include "http/client.h"
#include "http/json_api.h"
#include "modules/sha256.h"
#include "platform/clock.h"

namespace weir::cli {
namespace {

constexpr Duration kTryAgainAfter = milliseconds(200);
constexpr Duration kBlobWithin = seconds(120);

bool IsAway(const Error& error) { return error.code == Errc::kUnavailable || error.code == Errc::kTimeout; }

std::string Asked(const std::string& method, const std::string& target) {
  return fmt::format("asked for {} {}", method, target);
}

}  // namespace

Result<std::vector<ModuleClient::Manager>> ModuleClient::ParseManagers(const std::string& text) {
  std::vector<Manager> managers;
  for (const std::string& one : SplitList(text)) {
    const std::size_t colon = one.rfind(':');
    Manager manager{.host = one.substr(0, colon)};
    const char* end = one.data() + one.size();
    const char* digits = colon == std::string::npos ? end : one.data() + colon + 1;
    const auto [rest, error] = std::from_chars(digits, end, manager.port);
    if (manager.host.empty() || error != std::errc{} || rest != end || manager.port == 0)
      return Fail(Errc::kInvalidArgument, "a manager is HOST:PORT, not '" + one + "'");
    managers.push_back(std::move(manager));
  }
  return managers;
}

ModuleClient ModuleClient::OfNode(std::string socket) {
  ModuleClient client;
  client.socket_ = std::move(socket);
  return client;
}

ModuleClient ModuleClient::OfManagers(std::vector<Manager> managers, std::string token) {
  ModuleClient client;
  client.managers_ = std::move(managers);
  client.token_ = std::move(token);
  return client;
}

Result<http::Answer> ModuleClient::AskAny(http::Call call, Duration timeout) {
  if (managers_.empty()) {
    call.if_absent = "start the node's daemon with 'weir serve --modules VGPU', or name managers with --manager";
    return http::AskUnix(socket_, call, timeout);
  }
  call.bearer = token_;
  for (std::size_t tried = 1;; ++tried) {
    const Manager& manager = managers_[manager_];
    auto answer = http::AskTcp(manager.host, manager.port, call, timeout);
    // One that does not lead says so as one that is away.
    const bool away = answer ? answer->status == EntryOf(Errc::kUnavailable).http_status : IsAway(answer.error());
    if (!away || tried == managers_.size()) return answer;
    manager_ = (manager_ + 1) % managers_.size();
  }
}

Result<nlohmann::json> ModuleClient::Ask(const std::string& method, const std::string& target, const std::string& body,
                                         Duration timeout) {
  WEIR_TRY(const http::Answer answer, AskAny({.method = method, .target = target, .body = body}, timeout));
  return http::ObjectOf(answer, Asked(method, target));
}

Result<nlohmann::json> ModuleClient::AskUntil(Duration patience, const std::string& method, const std::string& target,
                                              const std::string& body, Duration timeout) {
  const Instant deadline = platform::Now() + patience;
  for (bool said = false;; said = true) {
    auto answer = Ask(method, target, body, timeout);
    if (answer || !IsAway(answer.error()) || platform::Now() >= deadline) return answer;
    if (!said) fmt::print(stderr, "weir: {}; trying again for {:.0f} s\n", answer.error().message, SecondsOf(patience));
    std::this_thread::sleep_for(kTryAgainAfter);
  }
}

Result<std::string> ModuleClient::PutBlob(const std::string& bytes) {
  const std::string blob = modules::Sha256Of(bytes);
  const std::string target = "/v1/blobs/" + blob;
  WEIR_TRY(const http::Answer answer,
           AskAny({.method = "PUT", .target = target, .body = bytes, .content_type = "application/octet-stream"},
                  kBlobWithin));
  WEIR_TRY_STATUS(http::ObjectOf(answer, Asked("PUT", target)));
  return blob;
}

Result<std::string> ModuleClient::GetBlob(const std::string& blob) {
  const std::string target = "/v1/blobs/" + blob;
  WEIR_TRY(http::Answer answer, AskAny({.method = "GET", .target = target}, kBlobWithin));
  if (answer.status != 200) {
    WEIR_TRY_STATUS(http::ObjectOf(answer, Asked("GET", target)));
  }
  if (modules::Sha256Of(answer.body) != blob)
    return Fail(Errc::kProtocol, "what came for blob " + blob + " are other bytes");
  return std::move(answer.body);
}

}  // namespace weir::cli
