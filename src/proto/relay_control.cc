// SPDX-License-Identifier: Apache-2.0
#include "proto/relay_control.h"

#include <algorithm>
#include <charconv>

namespace weir::proto {
namespace {

constexpr std::string_view kFigures = "figures";
/// Of the lines before the figures. An answer has room for both in its packet.
constexpr std::size_t kMoveLinesBytesMax = kControlBytesMax - 1024;

/// Calls `each` with the name and value of each figure, in output order.
template <typename Each>
void EachFigure(const MoveFigures& figures, Each each) {
  each("objects", figures.objects);
  each("memories", figures.memories);
  each("bytes_before", figures.bytes_before);
  each("bytes_in_pause", figures.bytes_in_pause);
  each("bytes_unchanged", figures.bytes_unchanged);
  each("pause_us", figures.pause_us);
}

/// Formats with one decimal.
std::string InUnits(std::uint64_t number, std::uint64_t unit) {
  const std::uint64_t tenths = (number % unit * 10 + unit / 2) / unit + number / unit * 10;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string Mebibytes(std::uint64_t bytes) { return InUnits(bytes, 1 << 20) + " MiB"; }

std::string LineOf(const MoveFigures& move) {
  return std::to_string(move.objects) + " objects recreated; contents of " + std::to_string(move.memories) + ": " +
         Mebibytes(move.bytes_before) + " sent before the pause, " + Mebibytes(move.bytes_in_pause) + " in it, " +
         Mebibytes(move.bytes_unchanged) + " not sent again; paused for " + InUnits(move.pause_us, 1000) + " ms\n";
}

}  // namespace

std::string MoveText(std::span<const MoveFigures> moves) {
  std::string said;
  MoveFigures all;
  std::size_t unsaid = 0;
  for (const MoveFigures& move : moves) {
    const std::string line = LineOf(move);
    if (unsaid == 0 && said.size() + line.size() <= kMoveLinesBytesMax)
      said += line;
    else
      ++unsaid;
    all.objects += move.objects;
    all.memories += move.memories;
    all.bytes_before += move.bytes_before;
    all.bytes_in_pause += move.bytes_in_pause;
    all.bytes_unchanged += move.bytes_unchanged;
    all.pause_us = std::max(all.pause_us, move.pause_us);
  }
  if (unsaid > 0) said += "and " + std::to_string(unsaid) + " more connections\n";
  said += kFigures;
  EachFigure(all, [&](const char* name, std::uint64_t number) {
    said += std::string(" ") + name + "=" + std::to_string(number);
  });
  return said;
}

std::vector<std::pair<std::string, std::uint64_t>> TakeFigures(std::string& said) {
  std::vector<std::pair<std::string, std::uint64_t>> figures;
  const std::size_t last = said.rfind('\n');
  std::string_view line(said);
  if (last == std::string::npos || !line.substr(last + 1).starts_with(kFigures)) return figures;
  line.remove_prefix(last + 1 + kFigures.size());
  while (!line.empty()) {
    line.remove_prefix(1);
    const std::string_view figure = line.substr(0, line.find(' '));
    line.remove_prefix(figure.size());
    const std::size_t equals = figure.find('=');
    std::uint64_t number = 0;
    if (equals == std::string_view::npos) continue;
    const auto read = std::from_chars(figure.data() + equals + 1, figure.data() + figure.size(), number);
    if (read.ec == std::errc()) figures.emplace_back(figure.substr(0, equals), number);
  }
  said.resize(last);
  return figures;
}

std::string RequestText(const MoveRequest& request) {
  std::string text = "move\nnode " + request.node + "\n";
  if (!request.token.empty()) text += "token " + request.token + "\n";
  if (!request.vgpu.empty()) text += "vgpu " + request.vgpu + "\n";
  if (request.if_asked) text += "if asked\n";
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
    if (key == "if" && value == "asked") request.if_asked = true;
  }
  if (first || request.node.empty() || request.token.empty() == request.vgpu.empty()) return std::nullopt;
  return request;
}

std::string AnswerText(const Result<std::string>& said) {
  const std::string text =
      said ? "ok\n" + *said : "error " + std::string(NameOf(said.error().code)) + "\n" + said.error().message;
  return text.substr(0, kControlBytesMax);
}

Result<std::string> AnswerFrom(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view head = text.substr(0, end);
  const std::string words(text.substr(std::min(end + 1, text.size())));
  if (head == "ok") return words;
  for (const ErrcEntry& entry : kErrcTable)
    if (head == "error " + std::string(entry.name)) return Fail(entry.code, words);
  return Fail(Errc::kProtocol, "the relay's reply is malformed");
}

}  // namespace weir::proto
