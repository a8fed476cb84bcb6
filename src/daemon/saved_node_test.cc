// SPDX-License-Identifier: Apache-2.0
#include "daemon/saved_node.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace weir::daemon {
namespace {

SavedNode Example() {
  return {.policies = {{"embedded", "reserve", {{"period_ms", 2.0}}}},
          .oversell = {{"embedded", "adaptive", {{"low_line", 0.6}}}},
          .memory = {{"embedded", 54 * kSlotBytes.count, {{"layout", 1}}, 12e9}},
          .vgpus = {{.id = VgpuId{7},
                     .name = "game",
                     .device = "embedded",
                     .settings = {.weight = 50,
                                  .cap = Share::FromFraction(0.5),
                                  .fps = 29.97,
                                  .latency = milliseconds(33),
                                  .memory_max = MiB(512),
                                  .partition = core::PartitionMode::kStay},
                     .owner_uid = 1000,
                     .ephemeral = true,
                     .owner_pid = 4242,
                     .owner_started = 123456789,
                     .paused = true,
                     .sale = core::Sale::kOversold}}};
}

TEST(SavedNode, ComesBackAsItWas) {
  const auto back = FromText(ToText(Example()));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  ASSERT_EQ(back->vgpus.size(), 1U);
  const SavedVgpu& vgpu = back->vgpus[0];
  EXPECT_EQ(vgpu.id, VgpuId{7});
  EXPECT_EQ(vgpu.settings, Example().vgpus[0].settings);
  EXPECT_EQ(vgpu.owner_pid, 4242);
  EXPECT_EQ(vgpu.owner_started, 123456789U);
  EXPECT_TRUE(vgpu.ephemeral && vgpu.paused);
  EXPECT_EQ(vgpu.sale, core::Sale::kOversold);
  EXPECT_EQ(back->policies[0].policy, "reserve");
  EXPECT_EQ(back->policies[0].params.at("period_ms"), 2.0);
  ASSERT_EQ(back->oversell.size(), 1U);
  EXPECT_EQ(back->oversell[0].mode, "adaptive");
  EXPECT_EQ(back->oversell[0].params.at("low_line"), 0.6);
  ASSERT_EQ(back->memory.size(), 1U);
  EXPECT_EQ(back->memory[0].size_bytes, 54 * kSlotBytes.count);
  EXPECT_EQ(back->memory[0].params.at("layout"), 1.0);
  EXPECT_EQ(back->memory[0].copy_bytes_per_s, 12e9);
}

TEST(SavedNode, EveryLatencyComesBackToTheNanosecond) {
  Prng prng(7);
  for (int i = 0; i < 1000; ++i) {
    SavedNode node = Example();
    node.vgpus[0].settings.latency = Duration{prng.Between(1, 1'000'000'000)};
    const auto back = FromText(ToText(node));
    ASSERT_TRUE(back.has_value()) << back.error().message;
    EXPECT_EQ(back->vgpus[0].settings.latency, node.vgpus[0].settings.latency);
  }
}

// A published format: text that version 1 has written must stay readable.
TEST(SavedNode, VersionOneIsReadForEver) {
  const auto node = FromText(
      R"({"weir_saved_node":1,"policies":[{"device":"embedded","policy":"none","params":{}}],)"
      R"("vgpus":[{"id":3,"name":"a","device":"embedded","owner_uid":0,"ephemeral":false,"owner_pid":0,"owner_started":0,)"
      R"("paused":false,"weight":30,"cap":0.25,"fps":60,"latency_ms":16.5,"memory_min_bytes":0,"memory_max_bytes":67108864}]})");
  ASSERT_TRUE(node.has_value()) << node.error().message;
  EXPECT_EQ(node->vgpus[0].settings.weight, 30U);
  EXPECT_EQ(node->vgpus[0].settings.cap, Share::FromFraction(0.25));
  EXPECT_EQ(node->vgpus[0].settings.latency, microseconds(16500));
  EXPECT_EQ(node->vgpus[0].sale, core::Sale::kGuaranteed) << "nothing was sold otherwise then";
  EXPECT_EQ(node->vgpus[0].settings.partition, core::PartitionMode::kAuto);
  EXPECT_TRUE(node->oversell.empty());
  EXPECT_TRUE(node->memory.empty());
}

TEST(SavedNode, AnotherVersionAndGarbageAreRefused) {
  EXPECT_EQ(FromText(R"({"weir_saved_node":2,"policies":[],"vgpus":[]})").error().code, Errc::kVersionMismatch);
  for (const char* text : {"{}", "[]", "null", "{\"weir_saved_node\":\"1\"}", "{\"weir_saved_node\":1}",
                           "{\"weir_saved_node\":1,\"policies\":[],\"vgpus\":[3]}",
                           "{\"weir_saved_node\":1,\"policies\":[],\"vgpus\":[{\"id\":-1}]}",
                           "{\"weir_saved_node\":1,\"policies\":[],\"vgpus\":[{\"id\":1,\"owner_uid\":4294967296}]}",
                           "{\"weir_saved_node\":1,\"policies\":[],\"vgpus\":[{\"id\":1,\"owner_pid\":4294967296}]}",
                           "{\"weir_saved_node\":1,\"policies\":[],\"vgpus\":[{\"id\":1,\"sale\":\"rented\"}]}",
                           "{\"weir_saved_node\":1,\"policies\":[],\"oversell\":{},\"vgpus\":[]}"})
    EXPECT_FALSE(FromText(text).has_value()) << text;
}

TEST(SavedNode, EveryCutOrChangedByteIsRefused) {
  const std::string text = ToText(Example());
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(FromText(text.substr(0, n)).has_value()) << n;
  Prng prng(11);
  for (int i = 0; i < 5000; ++i) {
    std::string changed = text;
    char& byte = changed[static_cast<std::size_t>(prng.Between(0, static_cast<std::int64_t>(text.size()) - 1))];
    byte = static_cast<char>(byte ^ static_cast<char>(prng.Between(1, 255)));
    EXPECT_FALSE(FromText(changed).has_value()) << changed;
  }
}

TEST(SavedNode, AFileWithoutItsChecksumIsRefused) {
  const std::string text = ToText(Example());
  const std::size_t line = text.find(" \"crc32c\"");
  ASSERT_NE(line, std::string::npos);
  const auto cut = FromText(std::string(text).erase(line, text.find('\n', line) + 1 - line));
  ASSERT_FALSE(cut.has_value());
  EXPECT_NE(cut.error().message.find("checksum"), std::string::npos) << cut.error().message;
}

}  // namespace
}  // namespace weir::daemon
