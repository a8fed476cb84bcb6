// SPDX-License-Identifier: Apache-2.0
#include "proto/drain_list.h"

#include <algorithm>
#include <charconv>

namespace weir::proto {
namespace {

constexpr std::string_view kLeave = "leave", kHere = "here";

std::string_view TakeTo(char end, std::string_view& text) {
  const std::size_t length = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

bool CountFrom(std::string_view word, std::uint32_t& count) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
  return error == std::errc() && end == word.data() + word.size();
}

/// The head, and as many lines as fit into a packet.
template <typename All, typename Line>
std::string PacketOf(std::string_view head, const All& all, Line line) {
  std::string text = std::string(head) + "\n";
  for (const auto& one : all) {
    const std::string said = line(one) + "\n";
    if (text.size() + said.size() > kDrainListBytesMax) break;
    text += said;
  }
  return text;
}

/// Calls `take` with the first word and the rest of each line. Returns false if the text is not such a list.
template <typename Take>
bool TakeLines(std::string_view text, std::string_view head, Take take) {
  if (text.size() > kDrainListBytesMax || TakeTo('\n', text) != head) return false;
  while (!text.empty()) {
    std::string_view line = TakeTo('\n', text);
    const std::string_view vgpu = TakeTo(' ', line);
    if (vgpu.empty() || !take(std::string(vgpu), line)) return false;
  }
  return true;
}

}  // namespace

std::string DrainListText(const std::vector<DrainRequest>& asks) {
  return PacketOf(kLeave, asks,
                  [](const DrainRequest& ask) { return ask.vgpu + " " + ask.why.substr(0, kWhyBytesMax); });
}

std::optional<std::vector<DrainRequest>> DrainListFrom(std::string_view text) {
  std::vector<DrainRequest> asks;
  const bool good = TakeLines(text, kLeave, [&](std::string vgpu, std::string_view why) {
    if (why.empty() || why.size() > kWhyBytesMax) return false;
    asks.push_back({std::move(vgpu), std::string(why)});
    return true;
  });
  return good ? std::optional(std::move(asks)) : std::nullopt;
}

std::string DrainStateText(const std::vector<DrainState>& all) {
  return PacketOf(kHere, all, [](const DrainState& one) {
    return one.vgpu + " " + std::to_string(one.here) + " " + std::to_string(one.asked);
  });
}

std::optional<std::vector<DrainState>> DrainStateFrom(std::string_view text) {
  std::vector<DrainState> all;
  const bool good = TakeLines(text, kHere, [&](std::string vgpu, std::string_view counts) {
    DrainState one{.vgpu = std::move(vgpu)};
    const std::string_view here = TakeTo(' ', counts);
    if (!CountFrom(here, one.here) || !CountFrom(counts, one.asked) || one.asked > one.here) return false;
    all.push_back(std::move(one));
    return true;
  });
  return good ? std::optional(std::move(all)) : std::nullopt;
}

}  // namespace weir::proto
