// SPDX-License-Identifier: Apache-2.0
#include "cli/control_client.h"

#include <fmt/format.h>

#include "cli/http_client.h"

namespace weir::cli {
namespace {

using nlohmann::json;

/// The first entry of the table with this status; several codes share one, the daemon's body tells which.
Errc CodeOfStatus(unsigned status) {
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.http_status == status) return entry.code;
  return status < 500 ? Errc::kProtocol : Errc::kInternal;
}

const json* Find(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

Error ErrorOfReply(const HttpReply& reply, const json& body, const std::string& what) {
  const json* error = Find(body, "error");
  const json* code = error == nullptr ? nullptr : Find(*error, "code");
  const json* message = error == nullptr ? nullptr : Find(*error, "message");
  if (code == nullptr || message == nullptr || !code->is_string() || !message->is_string())
    return Fail(CodeOfStatus(reply.status),
                fmt::format("{}: the daemon answered HTTP {} without saying why", what, reply.status));
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.name == code->get_ref<const std::string&>()) return Fail(entry.code, message->get<std::string>());
  return Fail(CodeOfStatus(reply.status), message->get<std::string>());  // a code newer than this program
}

}  // namespace

Result<json> ControlClient::Ask(const char* method, const std::string& target, std::string body) const {
  WEIR_TRY(const HttpReply reply, AskOverUnixSocket(socket_path_, {method, target, std::move(body)}, timeout_));
  const std::string what = fmt::format("asked the daemon at {} for {} {}", socket_path_, method, target);
  json parsed = json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  if (reply.status < 200 || reply.status > 299) return ErrorOfReply(reply, parsed, what);
  if (!parsed.is_object())
    return Fail(Errc::kProtocol, what + ": the reply isn't a JSON object; does another program listen there?");
  return parsed;
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

std::string PercentEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool unreserved = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '_' || c == '.' || c == '~';
    if (unreserved)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace weir::cli
