// SPDX-License-Identifier: Apache-2.0
// JSON over HTTP as Weir's APIs speak it: errors by the codes of base/errc.h (docs/protocol/control-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace weir::http {

Reply ErrorReply(const Error& error);
Reply JsonReply(const nlohmann::ordered_json& body, unsigned status = 200);

/// No request and no file of ours nests deeper. Parsing, copying and writing a value take stack for each level.
inline constexpr int kJsonDepthMax = 32;
bool NestsTooDeep(std::string_view json);
/// A text from outside as JSON; discarded where it is not JSON or nests too deeply.
nlohmann::json ParseJson(std::string_view text);

/// The object of a good answer, and the error of another. `asked`: who was asked for what, for messages ("asked the
/// daemon at /run/weir/control.sock for GET /v1/status"). kProtocol where it is no JSON object.
Result<nlohmann::json> ObjectOf(const Answer& answer, const std::string& asked);

}  // namespace weir::http
