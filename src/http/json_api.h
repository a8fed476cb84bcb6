// SPDX-License-Identifier: Apache-2.0
// JSON over HTTP as Weir's APIs speak it: errors by the codes of base/errc.h (docs/protocol/control-api.md).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace weir::http {

/// JSON nested deeper than this is refused: nlohmann's values are copied by recursion, one frame a level.
inline constexpr std::size_t kJsonDepthMax = 64;
/// Foreign text as JSON; discarded where it is none or is nested too deeply.
nlohmann::json ParseJson(std::string_view text);

Reply ErrorReply(const Error& error);
Reply JsonReply(const nlohmann::ordered_json& body, unsigned status = 200);

/// The object of a good answer, and the error of another. `asked`: who was asked for what, for messages ("asked the
/// daemon at /run/weir/control.sock for GET /v1/status"). kProtocol where it is no JSON object.
Result<nlohmann::json> ObjectOf(const Answer& answer, const std::string& asked);

}  // namespace weir::http
