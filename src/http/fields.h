// SPDX-License-Identifier: Apache-2.0
// Fields of untrusted JSON objects and of queries, for every API. Errors are kInvalidArgument; they name the field,
// what is expected and what was given.
#pragma once

#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::http {

/// Parses an object; an empty text is an empty object.
Result<nlohmann::json> ParseObject(std::string_view text);

/// "field 'weight': expected a number, got string".
Error WrongField(std::string_view name, std::string_view expected, const nlohmann::json& value);

// These read one field; an absent field, or null, leaves `value` unchanged.

Status ReadString(const nlohmann::json& body, const char* name, std::string& value,
                  std::size_t bytes_max = std::numeric_limits<std::size_t>::max());
Status ReadBool(const nlohmann::json& body, const char* name, bool& value);
Status ReadUnsigned(const nlohmann::json& body, const char* name, std::uint64_t& value,
                    std::uint64_t max = std::numeric_limits<std::uint64_t>::max());
Status ReadNumber(const nlohmann::json& body, const char* name, double& value);
Status ReadNumber(const nlohmann::json& body, const char* name, double& value, double min, double max);

// These do the same and remove the field, so that ExpectNothingLeft finds unknown fields.

Status TakeString(nlohmann::json& body, const char* name, std::string& value);
Status TakeBool(nlohmann::json& body, const char* name, bool& value);
Status TakeUnsigned(nlohmann::json& body, const char* name, std::uint64_t& value);
Status TakeNumber(nlohmann::json& body, const char* name, double& value);

/// An error if `body` still has fields, which are then unknown.
Status ExpectNothingLeft(const nlohmann::json& body);
/// An error if `body` is no object or has other fields than `known`.
Status ExpectOnly(const nlohmann::json& body, std::initializer_list<std::string_view> known);

/// The whole number of `name` in "a=1&b=2"; `preset` if it is absent.
Result<std::uint64_t> QueryNumber(std::string_view query, std::string_view name, std::uint64_t preset);
/// Whether "name=true" is one of the query's parts.
bool QueryFlag(std::string_view query, std::string_view name);

}  // namespace weir::http
