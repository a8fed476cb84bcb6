// SPDX-License-Identifier: Apache-2.0
#include "http/json_api.h"

#include <fmt/format.h>

namespace weir::http {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string TextOf(const ordered_json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

/// The first entry of the table with this status; where codes share a status, the body distinguishes them.
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

Error ErrorOfAnswer(const Answer& answer, const json& body, const std::string& asked) {
  const json* error = Find(body, "error");
  const json* code = error == nullptr ? nullptr : Find(*error, "code");
  const json* message = error == nullptr ? nullptr : Find(*error, "message");
  if (code == nullptr || message == nullptr || !code->is_string() || !message->is_string())
    return Fail(CodeOfStatus(answer.status), fmt::format("{}: HTTP {} without saying why", asked, answer.status));
  for (const ErrcEntry& entry : kErrcTable)
    if (entry.name == code->get_ref<const std::string&>()) return Fail(entry.code, message->get<std::string>());
  return Fail(CodeOfStatus(answer.status), message->get<std::string>());  // the code is unknown to this version
}

}  // namespace

bool NestsTooDeep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kJsonDepthMax) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

json ParseJson(std::string_view text) {
  if (NestsTooDeep(text)) return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Reply ErrorReply(const Error& error) {
  const ordered_json body{{"error", {{"code", NameOf(error.code)}, {"message", error.message}}}};
  return {EntryOf(error.code).http_status, "application/json", TextOf(body)};
}

Reply JsonReply(const ordered_json& body, unsigned status) { return {status, "application/json", TextOf(body)}; }

Result<json> ObjectOf(const Answer& answer, const std::string& asked) {
  json parsed = ParseJson(answer.body);
  if (answer.status < 200 || answer.status > 299) return ErrorOfAnswer(answer, parsed, asked);
  if (!parsed.is_object())
    return Fail(Errc::kProtocol, asked + ": the reply isn't a JSON object; another program may listen there");
  return parsed;
}

}  // namespace weir::http
