// SPDX-License-Identifier: Apache-2.0
#include "daemon/drain_book.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::daemon {

bool DrainBook::Ask(const std::string& vgpu, const std::string& why) {
  const auto [entry, fresh] = entries_.try_emplace(vgpu, Entry{.why = why});
  const bool other = entry->second.why != why;
  entry->second.why = why;
  return fresh || other;
}

bool DrainBook::TakeBack(const std::string& vgpu) { return entries_.erase(vgpu) > 0; }

std::string DrainBook::Text() const {
  std::vector<proto::DrainRequest> asks;
  for (const auto& [vgpu, entry] : entries_) asks.push_back({.vgpu = vgpu, .why = entry.why});
  return proto::DrainListText(asks);
}

std::vector<engine::Note> DrainBook::Hear(std::uint64_t portal, const std::vector<proto::DrainState>& here) {
  std::vector<engine::Note> notes;
  for (auto& [vgpu, entry] : entries_) {
    const auto said = std::ranges::find(here, vgpu, &proto::DrainState::vgpu);
    if (said == here.end())
      entry.portals.erase(portal);
    else
      entry.portals.insert_or_assign(portal, *said);
    Tell(vgpu, entry, notes);
  }
  return notes;
}

void DrainBook::Tell(const std::string& vgpu, Entry& entry, std::vector<engine::Note>& notes) {
  std::uint64_t connections = 0, asked = 0;
  for (const auto& [portal, here] : entry.portals) connections += here.here, asked += here.asked;
  if (asked > 0 && !entry.told) {
    entry.told = true;
    notes.push_back({.device = "",
                     .kind = "asked",
                     .vgpu = vgpu,
                     .text = fmt::format("{} of its {} connections from other machines {} asked to go elsewhere", asked,
                                         connections, asked == 1 ? "is" : "are")});
  }
  if (entry.told && !entry.left && connections == 0) {
    entry.left = true;
    notes.push_back({.device = "", .kind = "left", .vgpu = vgpu, .text = "no program from another machine is left"});
  }
}

}  // namespace weir::daemon
