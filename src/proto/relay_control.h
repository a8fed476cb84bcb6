// SPDX-License-Identifier: Apache-2.0
// Control of a relay: requests to move its programs to another node, one packet in each direction on the socket
// SOCKET.control beside the clients' socket. A request has lines of "KEY VALUE". An answer is "ok" or "error CODE",
// followed by text for users and, after a move, its figures. The text of the answer to kWhereIs is the node's
// HOST:PORT.
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
  std::string token = {};  // path of a token file, as the relay sees it; empty: plain connection
  std::string vgpu = {};   // for a plain connection
  bool if_asked = false;   // move only if the present node still has a drain request
};
/// Figures of the migration of one connection of a program.
struct MoveFigures {
  std::uint64_t objects = 0;   // recreated
  std::uint64_t memories = 0;  // memory objects with contents
  // Contents sent to the new node while the program ran, sent in the pause, and not sent since the node had them
  // already.
  std::uint64_t bytes_before = 0, bytes_in_pause = 0, bytes_unchanged = 0;
  std::uint64_t pause_us = 0;
};
/// Text for users, one line for each of the first moves and the number of the others, followed by "figures KEY=NUMBER
/// ..." with sums over all, and the maximum of the pauses. It fits into an answer.
std::string MoveText(std::span<const MoveFigures> moves);
/// Removes the line with figures from a relay's answer. Returns nothing if there is none.
std::vector<std::pair<std::string, std::uint64_t>> TakeFigures(std::string& said);

std::string RequestText(const MoveRequest& request);
/// Nothing if the text is not a request.
std::optional<MoveRequest> RequestFrom(std::string_view text);
/// A text that is too long for a packet is cut.
std::string AnswerText(const Result<std::string>& said);
/// The text of the answer. kProtocol if it is not an answer.
Result<std::string> AnswerFrom(std::string_view text);

}  // namespace weir::proto
