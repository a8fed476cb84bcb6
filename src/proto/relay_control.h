// SPDX-License-Identifier: Apache-2.0
// How a relay is asked to move its programs to another node: a packet each way on a socket beside the one for clients,
// SOCKET.control. A request is lines of "KEY VALUE"; an answer is "ok" or "error CODE", then words for people, and
// after a move its figures. To kWhereIs the words are the node's HOST:PORT.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weir::proto {

inline constexpr std::size_t kControlBytesMax = 4096;
inline constexpr const char* kControlSuffix = ".control";

inline constexpr std::string_view kWhereIs = "where\n";

struct MoveRequest {
  std::string node = {};   // HOST:PORT
  std::string token = {};  // a file, as the relay sees it; empty: plain
  std::string vgpu = {};   // with plain
  bool if_asked = false;   // only if the node where it is still asks to be left
};
/// What moving one of a program's connections came to.
struct MoveFigures {
  std::uint64_t objects = 0;   // made anew
  std::uint64_t memories = 0;  // that have contents
  // Of contents, sent to the new node while the program ran, and in the pause; and not sent then, because it had them.
  std::uint64_t bytes_before = 0, bytes_in_pause = 0, bytes_unchanged = 0;
  std::uint64_t pause_us = 0;
};
/// For people a line each; behind these "figures KEY=NUMBER ..." of all together, of the pauses the longest.
std::string SaidOf(std::span<const MoveFigures> moves);
/// Takes that line out of what a relay has said. Empty: there is none.
std::vector<std::pair<std::string, std::uint64_t>> TakeFigures(std::string& said);

std::string RequestText(const MoveRequest& request);
/// Nothing: it is none.
std::optional<MoveRequest> RequestFrom(std::string_view text);
std::string AnswerText(const Result<std::string>& said);
/// What the relay has said. kProtocol: it is no answer.
Result<std::string> AnswerFrom(std::string_view text);

}  // namespace weir::proto
