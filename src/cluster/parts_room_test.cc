// SPDX-License-Identifier: Apache-2.0
#include "cluster/parts_room.h"

#include <gtest/gtest.h>

namespace weir::cluster {
namespace {

using nlohmann::json;

json VgpuUsing(const std::string& name, Bytes used, std::uint64_t work_items, Bytes limit = {}) {
  return {{"name", name},
          {"settings", {{"memory_max_bytes", limit.count}}},
          {"memory", {{"elastic", false}, {"max_slots", 0}, {"resident_slots", 0}}},
          {"use", {{"work_items", work_items}, {"memory_bytes", used.count}}}};
}
json ElasticVgpu(const std::string& name, Bytes made, std::uint64_t max_slots, std::uint64_t resident_slots) {
  json vgpu = VgpuUsing(name, made, 0, MiB(1));
  vgpu["memory"] = {{"elastic", true}, {"max_slots", max_slots}, {"resident_slots", resident_slots}};
  return vgpu;
}
PartsRoom RoomIn(const json& vgpus, Bytes memory) {
  const auto room = RoomOf({{"vgpus", vgpus}}, "parts", memory);
  EXPECT_TRUE(room) << room.error().message;
  return room ? *room : PartsRoom{};
}

TEST(PartsRoom, IsTheVgpusUnusedMemory) {
  const json others = VgpuUsing("a", MiB(300), 1000);
  EXPECT_EQ(RoomIn({VgpuUsing("parts", {}, 0), others}, MiB(1000)), (PartsRoom{MiB(700), 1000})) << "no limit";
  EXPECT_EQ(RoomIn({VgpuUsing("parts", MiB(100), 24, MiB(256)), others}, MiB(1000)), (PartsRoom{MiB(156), 1024}));
  EXPECT_EQ(RoomIn({VgpuUsing("parts", MiB(100), 0, MiB(900)), others}, MiB(500)).room, MiB(100)) << "the device's";
  EXPECT_EQ(RoomIn({VgpuUsing("parts", MiB(100), 0, MiB(64)), others}, MiB(500)).room, Bytes{}) << "it holds too much";
}

TEST(PartsRoom, EvictedElasticMemoryDoesNotCount) {
  EXPECT_EQ(RoomIn({ElasticVgpu("parts", MiB(900), 4, 1), ElasticVgpu("a", MiB(900), 8, 3)}, MiB(1024)).room, MiB(192));
  EXPECT_EQ(RoomIn({ElasticVgpu("parts", MiB(0), 4, 0), ElasticVgpu("a", MiB(900), 8, 8)}, MiB(576)).room, MiB(64));
}

TEST(PartsRoom, RequiresAnExistingVgpu) {
  EXPECT_EQ(RoomOf({{"vgpus", {VgpuUsing("a", {}, 0)}}}, "parts", MiB(1)).error().code, Errc::kNotFound);
  EXPECT_EQ(RoomOf(json::object(), "parts", MiB(1)).error().code, Errc::kNotFound);
  EXPECT_EQ(RoomOf({{"vgpus", {3, {{"name", "parts"}, {"use", 7}}}}}, "parts", MiB(1))->room, MiB(1));
}

TEST(PartsRoom, TheDeviceIsReadFromTheDriversLine) {
  const auto device = DeviceOfLine("libpocl.so.2\t0\tAuthenticAMD\tpthread-\xc3\xa9\t2\t9489833984\t3.1\n");
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_EQ(device->name, "pthread-??");
  EXPECT_EQ(device->driver, "3.1");
  EXPECT_EQ(device->memory, Bytes{9489833984});
  EXPECT_TRUE(DeviceOfLine("lib\t0\tv\tn\t2\t9\t3.1\tuuid\t0000:01:00.0\n")) << "later versions say more";
  for (const char* bad : {"", "lib\t0\tv\tn\t2\t9", "lib\t0\tv\tn\t2\tmany\t3.1", "lib\t0\tv\t\t2\t9\t3.1"})
    EXPECT_EQ(DeviceOfLine(bad).error().code, Errc::kProtocol) << bad;
}

}  // namespace
}  // namespace weir::cluster
