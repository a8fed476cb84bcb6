// SPDX-License-Identifier: Apache-2.0
// How a relay is asked to move its programs to another node: a packet each way on a socket beside the one for clients,
// SOCKET.control. A request is lines of "KEY VALUE"; an answer is "ok" or "error CODE", then words for people. To
// kWhereIs the words are the node's HOST:PORT.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::proto {

inline constexpr std::size_t kControlBytesMax = 4096;
inline constexpr const char* kControlSuffix = ".control";

inline constexpr std::string_view kWhereIs = "where\n";

struct MoveRequest {
  std::string node = {};   // HOST:PORT
  std::string token = {};  // a file, as the relay sees it; empty: plain
  std::string vgpu = {};   // with plain
};
std::string RequestText(const MoveRequest& request);
/// Nothing: it is none.
std::optional<MoveRequest> RequestFrom(std::string_view text);
std::string AnswerText(const Result<std::string>& said);
/// What the relay has said. kProtocol: it is no answer.
Result<std::string> AnswerFrom(std::string_view text);

}  // namespace weir::proto
