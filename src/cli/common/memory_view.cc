// SPDX-License-Identifier: Apache-2.0
#include "cli/common/memory_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/common/text_units.h"

namespace weir::cli {
namespace {

std::uint64_t Unsigned(const nlohmann::json& object, const char* key) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(WholeField(object, key), 0));
}

struct SlotSigns {
  const char* own;      // assigned to the vGPU
  const char* others;   // held by the vGPU, but assigned to another vGPU or to none
  const char* leaving;  // being revoked
  const char* none;
};
constexpr SlotSigns kUnicodeSigns{"█", "░", "▒", "·"};
constexpr SlotSigns kAsciiSigns{"#", "-", "=", "."};

std::string SlotsText(std::uint64_t slots, std::uint64_t slot_bytes) {
  return fmt::format("{} ({})", slots, FormatBytes(Bytes{slots * slot_bytes}));
}

const VgpuView* Find(const std::vector<VgpuView>& vgpus, const std::string& name) {
  const auto found = std::ranges::find(vgpus, name, &VgpuView::name);
  return found == vgpus.end() ? nullptr : &*found;
}

}  // namespace

MemoryMapView MemoryMapFromJson(const nlohmann::json& reply) {
  using nlohmann::json;
  MemoryMapView map;
  map.device = TextField(reply, "device");
  map.pressure = TextField(reply, "pressure");
  map.slots = Unsigned(reply, "slots");
  map.slot_bytes = Unsigned(reply, "slot_bytes");
  map.size = Unsigned(reply, "size_slots");
  map.others = Unsigned(reply, "others_slots");
  map.held = Unsigned(reply, "held_slots");
  map.guaranteed = Unsigned(reply, "guaranteed_slots");
  map.switches = Unsigned(reply, "switches");
  map.overhead = NumberField(reply, "overhead");
  map.steal_percent = NumberField(reply, "steal_percent");
  map.copying_percent = NumberField(reply, "copying_percent");
  map.copy_bytes_per_s = NumberField(reply, "copy_bytes_per_s");
  if (const auto params = reply.find("params"); params != reply.end() && params->is_object()) {
    map.layout = TextField(*params, "layout");
    for (const auto& [name, value] : params->items())
      map.params.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  const auto list = [&reply](const char* key) {
    const auto found = reply.find(key);
    return found != reply.end() && found->is_array() ? *found : json::array();
  };
  for (const json& owner : list("owners"))
    map.owners.push_back(owner.is_number_integer() ? owner.get<std::int64_t>() : 0);
  for (const json& leaving : list("leaving")) map.leaving.push_back(leaving.is_boolean() && leaving.get<bool>());
  map.owners.resize(map.slots);
  map.leaving.resize(map.slots);
  for (const json& entry : list("holders")) {
    MemoryMapView::Holder holder{.name = TextField(entry, "name"), .id = WholeField(entry, "id"), .ranges = {}};
    if (const auto ranges = entry.find("ranges"); ranges != entry.end() && ranges->is_array())
      for (const json& range : *ranges)
        if (range.is_array() && range.size() == 2 && range[0].is_number_unsigned() && range[1].is_number_unsigned())
          holder.ranges.emplace_back(range[0].get<std::uint64_t>(), range[1].get<std::uint64_t>());
    map.holders.push_back(std::move(holder));
  }
  return map;
}

std::string MemoryLines(const MemoryMapView& map, const std::vector<VgpuView>& vgpus, std::size_t width, bool color,
                        Glyphs glyphs) {
  std::string out =
      fmt::format("{}  memory {} of {} held, overhead {:.2f} of 2 ({})\n",
                  Styled(Printable(map.device), Style::kStrong, color), FormatBytes(Bytes{map.held * map.slot_bytes}),
                  FormatBytes(Bytes{map.slots * map.slot_bytes}), map.overhead, Printable(map.pressure));
  Table table({{"VGPU"}, {"HERE/HELD/MAX", Table::Align::kRight}, {"USES", Table::Align::kRight}, {"SLOTS"}});
  for (const MemoryMapView::Holder& holder : map.holders) {
    const VgpuView* v = Find(vgpus, holder.name);
    if (v == nullptr) continue;
    const auto& m = v->memory;
    table.Add(
        {{holder.name, Style::kStrong},
         {fmt::format("{}/{}/{}", m.here_slots, m.held_slots, m.max_slots), m.waits ? Style::kWarning : Style::kPlain},
         {FormatBytes(m.stats.in_use)},
         {SlotRow(map, holder, width, glyphs), Style::kAccent}});
  }
  return table.empty() ? out : out + table.Render(color);
}

std::string MemoryParamsText(const std::vector<ParamView>& params, const MemoryMapView& map, bool color) {
  Table table({{"PARAMETER"},
               {map.device, Table::Align::kRight},
               {"DEFAULT", Table::Align::kRight},
               {"RANGE"},
               {"WHAT IT IS"}});
  for (const ParamView& param : params) {
    const auto found = std::ranges::find(map.params, param.name, &std::pair<std::string, std::string>::first);
    table.Add({{param.name, Style::kStrong},
               {found == map.params.end() ? "-" : found->second},
               {DefaultText(param)},
               {RangeText(param)},
               {param.summary}});
  }
  return table.Render(color);
}

std::string SlotRow(const MemoryMapView& map, const MemoryMapView::Holder& holder, std::size_t width, Glyphs glyphs) {
  const SlotSigns& signs = glyphs == Glyphs::kUnicode ? kUnicodeSigns : kAsciiSigns;
  std::vector<bool> holds(map.slots, false);
  for (const auto& [first, count] : holder.ranges)
    for (std::uint64_t i = first; i < std::min(first + count, map.slots); ++i) holds[i] = true;
  const std::uint64_t each = std::max<std::uint64_t>((map.slots + width - 1) / std::max<std::size_t>(width, 1), 1);
  std::string row;
  for (std::uint64_t from = 0; from < map.slots; from += each) {
    std::uint64_t own = 0, others = 0, leaving = 0, none = 0;
    for (std::uint64_t i = from; i < std::min(from + each, map.slots); ++i) {
      const bool is_here = map.owners[i] == holder.id;
      if (is_here && map.leaving[i])
        ++leaving;
      else if (is_here)
        ++own;
      else if (holds[i])
        ++others;
      else
        ++none;
    }
    // A cell with several slots shows the most frequent sign; among equally frequent signs, the first.
    const std::uint64_t most = std::max({own, others, leaving, none});
    row += most == own ? signs.own : most == others ? signs.others : most == leaving ? signs.leaving : signs.none;
  }
  return row;
}

std::string MemoryMapText(const MemoryMapView& map, const std::vector<VgpuView>& vgpus, std::size_t width, bool color,
                          Glyphs glyphs) {
  std::string out;
  auto line = [&out](const char* name, const std::string& value) {
    out += fmt::format("{:<14}{}\n", name, Printable(value));
  };
  line("device", map.device);
  if (map.slots == 0) {
    line("memory", "not elastic: --memory of a vGPU is a fixed limit. Turn it on: weir memory on --size SIZE");
    return out;
  }
  line("memory", fmt::format("elastic, {} slots of {} ({}), {}", map.slots, FormatBytes(Bytes{map.slot_bytes}),
                             FormatBytes(Bytes{map.slots * map.slot_bytes}), map.layout));
  if (map.others > 0)
    line("others", fmt::format("{}, of the device's {}", SlotsText(map.others, map.slot_bytes),
                               SlotsText(map.size, map.slot_bytes)));
  line("held", fmt::format("{}, of that guaranteed {}", SlotsText(map.held, map.slot_bytes), map.guaranteed));
  line("overhead", fmt::format("{:.2f} of 2, {}: steal {:.0f} %, copying {:.1f} %; {} switches so far", map.overhead,
                               map.pressure, map.steal_percent, map.copying_percent, map.switches));
  if (map.copy_bytes_per_s > 0) line("link", fmt::format("{:.1f} GB/s, modelled", map.copy_bytes_per_s / 1e9));
  if (map.holders.empty()) return out;
  Table table({{"VGPU"},
               {"MIN", Table::Align::kRight},
               {"MAX", Table::Align::kRight},
               {"HOLDS", Table::Align::kRight},
               {"HERE", Table::Align::kRight},
               {"USES", Table::Align::kRight},
               {"MADE", Table::Align::kRight},
               {"COPIED", Table::Align::kRight},
               {"IN PARTS", Table::Align::kRight},
               {"SLOTS"}});
  for (const MemoryMapView::Holder& holder : map.holders) {
    const VgpuView* v = Find(vgpus, holder.name);
    if (v == nullptr) continue;
    const auto& m = v->memory;
    table.Add({{holder.name, Style::kStrong},
               {fmt::format("{}", m.min_slots)},
               {fmt::format("{}", m.max_slots)},
               {fmt::format("{}", m.held_slots)},
               {fmt::format("{}{}", m.here_slots, m.waits ? " waits" : ""), m.waits ? Style::kWarning : Style::kPlain},
               {FormatBytes(m.stats.in_use)},
               {FormatBytes(m.stats.made)},
               {FormatBytes(Bytes{m.stats.copied_out.count + m.stats.copied_in.count})},
               {fmt::format("{}", m.stats.launches_in_parts)},
               {SlotRow(map, holder, width, glyphs)}});
  }
  const SlotSigns& signs = glyphs == Glyphs::kUnicode ? kUnicodeSigns : kAsciiSigns;
  out += "\n" + table.Render(color);
  out +=
      "\nMIN to HERE are slots: a vGPU holds HOLDS of them, and HERE are its own now. USES, MADE and COPIED are\n"
      "bytes: of the buffers used lately, of all buffers, and copied to and from host memory. IN PARTS: launches.\n";
  out += fmt::format("\n{} assigned   {} held but not assigned   {} revoking   {} not held\n", signs.own, signs.others,
                     signs.leaving, signs.none);
  return out;
}

}  // namespace weir::cli
