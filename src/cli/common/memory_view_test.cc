// SPDX-License-Identifier: Apache-2.0
#include "cli/common/memory_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

nlohmann::json MapReply() {
  return nlohmann::json::parse(R"({
    "device": "embedded", "slots": 6, "slot_bytes": 67108864, "held_slots": 8, "guaranteed_slots": 4, "overhead": 0.25,
    "steal_percent": 3.4, "copying_percent": 1.25, "pressure": "low", "switches": 17, "copy_bytes_per_s": 12e9,
    "params": {"layout": "contiguous", "look_ms": 500.0},
    "sharers": [1, 1, 2, 2, 1, 1], "owners": [1, 1, 1, 2, 2, 0], "leaving": [false, false, true, false, false, false],
    "holders": [{"name": "a", "id": 1, "ranges": [[0, 4]]}, {"name": "b", "id": 2, "ranges": [[2, 4]]}]})");
}

TEST(MemoryView, DrawsTheHolderAndOwnerOfEachSlot) {
  const MemoryMapView map = MemoryMapFromJson(MapReply());
  ASSERT_EQ(map.holders.size(), 2U);
  EXPECT_EQ(SlotRow(map, map.holders[0], 80, Glyphs::kAscii), "##=-..");
  EXPECT_EQ(SlotRow(map, map.holders[1], 80, Glyphs::kAscii), "..-##-");
  EXPECT_EQ(SlotRow(map, map.holders[0], 3, Glyphs::kAscii), "#-.") << "two slots a cell";
  EXPECT_EQ(SlotRow(map, map.holders[0], 80, Glyphs::kUnicode), "██▒░··");
}

TEST(MemoryView, ShowsTheSlotsAndWaitsOfEachVgpu) {
  VgpuView a;
  a.name = "a", a.memory.held_slots = 4, a.memory.here_slots = 2, a.memory.waits = true, a.memory.max_slots = 6;
  a.memory.stats.made = MiB(300);
  a.memory.stats.launches_in_parts = 4321;
  const std::string text = MemoryMapText(MemoryMapFromJson(MapReply()), {a}, 80, false, Glyphs::kAscii);
  EXPECT_NE(text.find("memory        elastic, 6 slots of 64M (384M), contiguous\n"), std::string::npos) << text;
  EXPECT_NE(text.find("held          8 (512M), of that guaranteed 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0.25 of 2, low: steal 3 %, copying 1.2 %; 17 switches so far"), std::string::npos) << text;
  EXPECT_NE(text.find("link          12.0 GB/s, modelled\n"), std::string::npos) << text;
  EXPECT_NE(text.find("2 waits"), std::string::npos) << text;
  EXPECT_NE(text.find("300M"), std::string::npos) << text;
  EXPECT_NE(text.find("4321"), std::string::npos) << text;
  EXPECT_NE(text.find("##=-.."), std::string::npos) << text;
}

TEST(MemoryView, HasShortLinesForALiveView) {
  VgpuView a;
  a.name = "a", a.memory.held_slots = 4, a.memory.here_slots = 2, a.memory.max_slots = 6;
  const std::string text = MemoryLines(MemoryMapFromJson(MapReply()), {a}, 80, false, Glyphs::kAscii);
  EXPECT_NE(text.find("embedded  memory 512M of 384M held, overhead 0.25 of 2 (low)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("2/4/6"), std::string::npos) << text;
  EXPECT_NE(text.find("##=-.."), std::string::npos) << text;
}

TEST(MemoryView, ExplainsHowToSwitchElasticMemoryOn) {
  const std::string text =
      MemoryMapText(MemoryMapFromJson({{"device", "gpu"}, {"slots", 0}}), {}, 80, false, Glyphs::kAscii);
  EXPECT_NE(text.find("not elastic"), std::string::npos) << text;
  EXPECT_NE(text.find("weir memory on"), std::string::npos) << text;
}

TEST(MemoryView, ListsParametersWithTheirValues) {
  const std::string text = MemoryParamsText({{"look_ms", "ms", "period of the overhead check", 500, 50, 60000, {}}},
                                            MemoryMapFromJson(MapReply()), false);
  EXPECT_NE(text.find("look_ms       500.0      500"), std::string::npos) << text;
}

TEST(MemoryView, SurvivesAMalformedMap) {
  for (const char* reply : {"{}", R"({"slots": 3, "owners": "x", "holders": [7]})", R"({"slots": -1})",
                            R"({"slots": 2, "owners": [1], "holders": [{"ranges": [[0, 9], [1], "y"]}]})"}) {
    const MemoryMapView map = MemoryMapFromJson(nlohmann::json::parse(reply));
    static_cast<void>(MemoryMapText(map, {}, 10, false, Glyphs::kAscii));
    for (const auto& holder : map.holders) static_cast<void>(SlotRow(map, holder, 0, Glyphs::kAscii));
  }
}

}  // namespace
}  // namespace weir::cli
