// SPDX-License-Identifier: Apache-2.0
// JSON over HTTP in Weir's APIs, with the error codes of base/errc.h (docs/protocol/control-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace weir::http {

Reply ErrorReply(const Error& error);
Reply JsonReply(const nlohmann::ordered_json& body, unsigned status = 200);

/// Upper bound of nesting; Weir's requests and files stay below it. Parsing, copying and writing need stack for each
/// level.
inline constexpr int kJsonDepthMax = 32;
bool NestsTooDeep(std::string_view json);
/// Parses untrusted text; the result is discarded() if the text is not JSON or nests too deeply.
nlohmann::json ParseJson(std::string_view text);

/// The object of a successful answer, or the error that another answer contains. `asked` describes the request for
/// messages ("asked the daemon at /run/weir/control.sock for GET /v1/status"). kProtocol: the answer is not a JSON
/// object.
Result<nlohmann::json> ObjectOf(const Answer& answer, const std::string& asked);

}  // namespace weir::http
