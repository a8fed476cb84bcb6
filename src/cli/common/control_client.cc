// SPDX-License-Identifier: Apache-2.0
#include "cli/common/control_client.h"

#include <fmt/format.h>

#include "http/json_api.h"

namespace weir::cli {
using nlohmann::json;

namespace {
std::string AskedText(const std::string& socket_path, const char* method, const std::string& target) {
  return fmt::format("asked the daemon at {} for {} {}", socket_path, method, target);
}
}  // namespace

Result<http::Answer> ControlClient::Call(const char* method, const std::string& target, std::string body) const {
  const http::Call call{.method = method,
                        .target = target,
                        .body = std::move(body),
                        .if_absent = "start a daemon with 'weir serve', or name its socket with --socket"};
  return http::AskUnix(socket_path_, call, timeout_);
}

Result<json> ControlClient::Ask(const char* method, const std::string& target, std::string body) const {
  WEIR_TRY(const http::Answer answer, Call(method, target, std::move(body)));
  return http::ObjectOf(answer, AskedText(socket_path_, method, target));
}

Result<std::string> ControlClient::GetText(const std::string& target) const {
  WEIR_TRY(http::Answer answer, Call("GET", target, ""));
  if (answer.status == 200) return std::move(answer.body);
  WEIR_TRY_STATUS(http::ObjectOf(answer, AskedText(socket_path_, "GET", target)));
  return Fail(Errc::kProtocol,
              fmt::format("{}: the status is {}", AskedText(socket_path_, "GET", target), answer.status));
}

Result<json> ControlClient::Get(const std::string& target) const { return Ask("GET", target, ""); }
Result<json> ControlClient::Delete(const std::string& target) const { return Ask("DELETE", target, ""); }
Result<json> ControlClient::Post(const std::string& target, const json& body) const {
  return Ask("POST", target, body.dump());
}
Result<json> ControlClient::Post(const std::string& target) const { return Ask("POST", target, ""); }
Result<json> ControlClient::Put(const std::string& target, const json& body) const {
  return Ask("PUT", target, body.dump());
}
Result<json> ControlClient::Patch(const std::string& target, const json& body) const {
  return Ask("PATCH", target, body.dump());
}

bool MayReturn(const Error& error) {
  return error.code == Errc::kUnavailable || error.code == Errc::kTimeout || error.code == Errc::kIo;
}

}  // namespace weir::cli
