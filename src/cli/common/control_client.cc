// SPDX-License-Identifier: Apache-2.0
#include "cli/common/control_client.h"

#include <fmt/format.h>

#include "http/json_api.h"

namespace weir::cli {
using nlohmann::json;

Result<json> ControlClient::Ask(const char* method, const std::string& target, std::string body) const {
  const http::Call call{.method = method,
                        .target = target,
                        .body = std::move(body),
                        .if_absent = "start a daemon with 'weir serve', or name its socket with --socket"};
  WEIR_TRY(const http::Answer answer, http::AskUnix(socket_path_, call, timeout_));
  return http::ObjectOf(answer, fmt::format("asked the daemon at {} for {} {}", socket_path_, method, target));
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
