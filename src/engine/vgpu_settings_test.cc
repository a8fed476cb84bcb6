// SPDX-License-Identifier: Apache-2.0
#include "engine/vgpu_settings.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::engine {
namespace {

TEST(VgpuSettings, DefaultsAreInTheirRanges) {
  EXPECT_TRUE(CheckSettings({}));
  EXPECT_EQ(SettingsText({}), "defaults");
}

TEST(VgpuSettings, MemoryThatIsNotWholeSlotsIsSaid) {
  EXPECT_EQ(MemoryRoundingText({}), "");
  EXPECT_EQ(MemoryRoundingText({.memory_min = MiB(64), .memory_max = MiB(1024)}), "");
  EXPECT_EQ(MemoryRoundingText({.memory_max = MiB(70)}),
            "memory is given in slots of 64 MiB: a maximum of 70 MiB counts as 128 MiB");
  EXPECT_EQ(MemoryRoundingText({.memory_min = MiB(32), .memory_max = MiB(96)}),
            "memory is given in slots of 64 MiB: a minimum of 32 MiB counts as 64 MiB, a maximum of 96 MiB counts as "
            "128 MiB");
  EXPECT_EQ(MemoryRoundingText({.memory_max = Bytes{10}}),
            "memory is given in slots of 64 MiB: a maximum of 10 bytes counts as 64 MiB");
}

TEST(VgpuSettings, EachSettingIsCheckedAgainstItsRange) {
  VgpuSettings::Fields([](const SettingInfo& info, auto member) {
    using Value = std::remove_cvref_t<decltype(VgpuSettings{}.*member)>;
    if constexpr (!kIsChoice<Value>) {
      for (const double beyond : {info.max * 1.01 + 1, info.min - 0.005}) {
        if (beyond < 0 || beyond > kSettingNumberMax<Value>) continue;
        VgpuSettings settings;
        SetSettingNumber(settings.*member, beyond);
        if (SettingNumber(settings.*member) >= info.min && SettingNumber(settings.*member) <= info.max) continue;
        const Status checked = CheckSettings(settings);
        ASSERT_FALSE(checked) << info.name << " = " << beyond;
        EXPECT_EQ(checked.error().message.find(info.name), 0U) << checked.error().message;
      }
      VgpuSettings settings;
      SetSettingNumber(settings.*member, info.max);
      if (std::string_view(info.name) == "memory_min_bytes") settings.memory_max = settings.memory_min;
      EXPECT_TRUE(CheckSettings(settings)) << info.name << " = " << info.max;
    }
  });
}

TEST(VgpuSettings, ANumberIsUnchangedAfterItWasSet) {
  VgpuSettings::Fields([](const SettingInfo& info, auto member) {
    using Value = std::remove_cvref_t<decltype(VgpuSettings{}.*member)>;
    if constexpr (!kIsChoice<Value>) {
      VgpuSettings once, again;
      SetSettingNumber(once.*member, info.min + (info.max - info.min) / 3);
      SetSettingNumber(again.*member, SettingNumber(once.*member));
      EXPECT_EQ(once, again) << info.name;
    }
  });
}

TEST(VgpuSettings, NamesAndOptionsAreUnique) {
  std::set<std::string_view> names, flags;
  VgpuSettings::Fields([&](const SettingInfo& info, auto) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    if (info.flag != nullptr) {
      EXPECT_TRUE(flags.insert(info.flag).second) << info.flag;
    }
  });
}

// A member that Fields() leaves out could not be set. If a member is only added to the struct, the sizes differ.
TEST(VgpuSettings, EveryMemberIsAField) {
  std::size_t bytes = 0;
  VgpuSettings::Fields([&](const SettingInfo&, auto member) { bytes += sizeof(VgpuSettings{}.*member); });
  EXPECT_LT(sizeof(VgpuSettings) - bytes, alignof(VgpuSettings)) << "more than the padding is missing";
}

TEST(VgpuSettings, TextNamesWhatDiffersFromTheDefault) {
  EXPECT_EQ(SettingsText({.weight = 50, .fps = 59.94, .latency = milliseconds(20), .memory_max = MiB(1)}),
            "weight 50, fps 59.94, latency_ms 20, memory_max_bytes 1048576");
  EXPECT_EQ(SettingsText({.partition = core::PartitionMode::kStay}), "partition never");
}

TEST(VgpuSettings, TextOfAChangeHasTheOldAndTheNewValues) {
  EXPECT_EQ(ChangedSettingsText({.weight = 50}, {.weight = 50}), "");
  EXPECT_EQ(ChangedSettingsText({.weight = 50, .cap = Share::FromFraction(0.25)},
                                {.fps = 59.94, .partition = core::PartitionMode::kStay}),
            "weight 50 to 100, cap 0.25 to 1, fps 0 to 59.94, partition auto to never");
}

TEST(VgpuSettings, ALimitAboveTheMemoryOfTheDeviceIsTold) {
  EXPECT_EQ(MemoryBeyondText({.memory_max = MiB(2048)}, MiB(2048)), "");
  EXPECT_EQ(MemoryBeyondText({.memory_max = MiB(2112)}, MiB(2048)),
            "the limit of 2112 MiB of memory is above the 2048 MiB of the device");
  EXPECT_EQ(MemoryBeyondText({.memory_max = MiB(2112)}, {}), "") << "unknown";
  EXPECT_EQ(MemoryBeyondText({}, MiB(2048)), "") << "no limit";
}

}  // namespace
}  // namespace weir::engine
