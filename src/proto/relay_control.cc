// SPDX-License-Identifier: Apache-2.0
#include "proto/relay_control.h"

#include <algorithm>

namespace weir::proto {
std::string RequestText(const MoveRequest& request) {
  std::string text = "move\nnode " + request.node + "\n";
  if (!request.token.empty()) text += "token " + request.token + "\n";
  if (!request.vgpu.empty()) text += "vgpu " + request.vgpu + "\n";
  return text;
}

std::optional<MoveRequest> RequestFrom(std::string_view text) {
  MoveRequest request;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (first) {
      if (line != "move") return std::nullopt;
      first = false;
      continue;
    }
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "node") request.node = value;
    if (key == "token") request.token = value;
    if (key == "vgpu") request.vgpu = value;
  }
  if (first || request.node.empty() || request.token.empty() == request.vgpu.empty()) return std::nullopt;
  return request;
}

std::string AnswerText(const Result<std::string>& said) {
  if (said) return "ok\n" + *said;
  return "error " + std::string(NameOf(said.error().code)) + "\n" + said.error().message;
}

Result<std::string> AnswerFrom(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view head = text.substr(0, end);
  const std::string words(text.substr(std::min(end + 1, text.size())));
  if (head == "ok") return words;
  for (const ErrcEntry& entry : kErrcTable)
    if (head == "error " + std::string(entry.name)) return Fail(entry.code, words);
  return Fail(Errc::kProtocol, "what the relay answered is no answer");
}

}  // namespace weir::proto
