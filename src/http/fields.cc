// SPDX-License-Identifier: Apache-2.0
#include "http/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "http/json_api.h"

namespace weir::http {
namespace {

using nlohmann::json;

/// The field; null: it is absent or null.
const json* Given(const json& body, const char* name) {
  if (!body.is_object()) return nullptr;
  const auto found = body.find(name);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

/// Calls `each` with the value of each part of "a=1&b=2" that begins with "name=".
template <typename Each>
void ForValues(std::string_view query, std::string_view name, Each each) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.size() > name.size() && pair.substr(0, name.size()) == name && pair[name.size()] == '=')
      each(pair.substr(name.size() + 1));
  }
}

}  // namespace

Result<json> ParseObject(std::string_view text) {
  if (text.empty()) return json::object();
  if (NestsTooDeep(text))
    return Fail(Errc::kInvalidArgument, fmt::format("the request's body nests deeper than {} levels", kJsonDepthMax));
  json parsed = ParseJson(text);
  if (parsed.is_discarded()) return Fail(Errc::kInvalidArgument, "the request's body is not JSON");
  if (!parsed.is_object())
    return Fail(Errc::kInvalidArgument, fmt::format("expected a JSON object, got {}", parsed.type_name()));
  return parsed;
}

Error WrongField(std::string_view name, std::string_view expected, const json& value) {
  // For a number of the wrong kind, the value is shown, because its type is "number" as well.
  const std::string got =
      value.is_number() && expected.find("number") != std::string_view::npos ? value.dump() : value.type_name();
  return Fail(Errc::kInvalidArgument, fmt::format("field '{}': expected {}, got {}", name, expected, got));
}

Status ReadString(const json& body, const char* name, std::string& value, std::size_t bytes_max) {
  const json* given = Given(body, name);
  if (given == nullptr) return Ok();
  if (!given->is_string()) return WrongField(name, "a string", *given);
  const auto& text = given->get_ref<const std::string&>();
  if (text.size() > bytes_max)
    return Fail(Errc::kInvalidArgument,
                fmt::format("field '{}': expected a string of at most {} bytes, got {}", name, bytes_max, text.size()));
  value = text;
  return Ok();
}

Status ReadBool(const json& body, const char* name, bool& value) {
  const json* given = Given(body, name);
  if (given == nullptr) return Ok();
  if (!given->is_boolean()) return WrongField(name, "true or false", *given);
  value = given->get<bool>();
  return Ok();
}

Status ReadUnsigned(const json& body, const char* name, std::uint64_t& value, std::uint64_t max) {
  const json* given = Given(body, name);
  if (given == nullptr) return Ok();
  if (!given->is_number_unsigned()) return WrongField(name, "a whole number, not negative", *given);
  if (given->get<std::uint64_t>() > max)
    return WrongField(name, fmt::format("a whole number of at most {}", max), *given);
  value = given->get<std::uint64_t>();
  return Ok();
}

Status ReadNumber(const json& body, const char* name, double& value) {
  const json* given = Given(body, name);
  if (given == nullptr) return Ok();
  if (!given->is_number()) return WrongField(name, "a number", *given);
  value = given->get<double>();
  return Ok();
}

Status ReadNumber(const json& body, const char* name, double& value, double min, double max) {
  double number = value;
  WEIR_TRY_STATUS(ReadNumber(body, name, number));
  if (const json* given = Given(body, name); given != nullptr && (!(number >= min) || number > max))
    return WrongField(name, fmt::format("a number from {:.12g} to {:.12g}", min, max), *given);
  value = number;
  return Ok();
}

Status TakeString(json& body, const char* name, std::string& value) {
  WEIR_TRY_STATUS(ReadString(body, name, value));
  body.erase(name);
  return Ok();
}

Status TakeBool(json& body, const char* name, bool& value) {
  WEIR_TRY_STATUS(ReadBool(body, name, value));
  body.erase(name);
  return Ok();
}

Status TakeUnsigned(json& body, const char* name, std::uint64_t& value) {
  WEIR_TRY_STATUS(ReadUnsigned(body, name, value));
  body.erase(name);
  return Ok();
}

Status TakeNumber(json& body, const char* name, double& value) {
  WEIR_TRY_STATUS(ReadNumber(body, name, value));
  body.erase(name);
  return Ok();
}

Status ExpectNothingLeft(const json& body) {
  if (body.empty()) return Ok();
  return Fail(Errc::kInvalidArgument, fmt::format("unknown field '{}'", body.begin().key()));
}

Status ExpectOnly(const json& body, std::initializer_list<std::string_view> known) {
  if (!body.is_object())
    return Fail(Errc::kInvalidArgument, fmt::format("expected a JSON object, got {}", body.type_name()));
  for (const auto& [name, value] : body.items())
    if (std::find(known.begin(), known.end(), std::string_view(name)) == known.end())
      return Fail(Errc::kInvalidArgument, fmt::format("unknown field '{}'; known: {}", name, fmt::join(known, ", ")));
  return Ok();
}

Result<std::uint64_t> QueryNumber(std::string_view query, std::string_view name, std::uint64_t preset) {
  Result<std::uint64_t> number = preset;
  ForValues(query, name, [&](std::string_view text) {
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size())
      number = value;
    else
      number = Fail(Errc::kInvalidArgument, fmt::format("{}: '{}' is not a whole number", name, text));
  });
  return number;
}

bool QueryFlag(std::string_view query, std::string_view name) {
  bool flag = false;
  ForValues(query, name, [&](std::string_view text) { flag = text == "true"; });
  return flag;
}

}  // namespace weir::http
