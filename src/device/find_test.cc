// SPDX-License-Identifier: Apache-2.0
#include "device/find.h"

#include <gtest/gtest.h>

#include "device/device_lines.h"

namespace weir::device {
namespace {

Status Add(const std::vector<std::string>& wanted, Devices& devices) { return AddDevices(wanted, {}, devices); }

TEST(FindDevices, EmbeddedIsADeviceLikeOthers) {
  Devices devices;
  ASSERT_TRUE(Add({"embedded"}, devices));
  ASSERT_EQ(devices.devices.size(), 1U);
  EXPECT_EQ(devices.devices[0].spec.name, "embedded");
  EXPECT_EQ(devices.devices[0].spec.kind, "software");
}

TEST(FindDevices, ADeviceThatIsGivenTwiceIsRefused) {
  Devices devices;
  const Status added = Add({"embedded", "embedded"}, devices);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kInvalidArgument);
}

TEST(FindDevices, AnUnknownDeviceIsRefusedWithTheChoices) {
  for (const char* text : {"", "nvidia", "nvidia:", "amd:0", "Embedded", "emulated", "emulated:"}) {
    Devices devices;
    const Status added = Add({text}, devices);
    ASSERT_FALSE(added) << text;
    EXPECT_EQ(added.error().code, Errc::kInvalidArgument) << text;
    EXPECT_NE(added.error().message.find("embedded, nvidia:GPU"), std::string::npos) << added.error().message;
  }
}

TEST(FindDevices, AnIdentityHasThreeFieldsThatMayBeEmpty) {
  const auto known = ParseGpuIdentity("GPU-0f0f\t0000:65:00.0\tCard");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->uuid, "GPU-0f0f");
  EXPECT_EQ(known->pci, "0000:65:00.0");
  EXPECT_EQ(known->model, "Card");
  const auto unknown = ParseGpuIdentity("\t\t");
  ASSERT_TRUE(unknown);
  EXPECT_TRUE(unknown->pci.empty());
  EXPECT_FALSE(ParseGpuIdentity("Segmentation fault"));
}

TEST(FindDevices, AnEmulatedDeviceHasAUuidAndASize) {
  const auto known = ParseEmulatedIdentity("Card (emulated)\t0f0f0f0f\t0000:01:00.0\t1024");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->model, "Card (emulated)");
  EXPECT_EQ(known->uuid, "0f0f0f0f");
  EXPECT_EQ(known->pci, "0000:01:00.0");
  EXPECT_EQ(known->memory_bytes, 1024U);
  for (const char* line : {"", "Card", "Card\tuuid\tpci", "Card\tuuid\tpci\t8 GiB", "Card\t\tpci\t1", "a\tb\tc\t1\t2"})
    EXPECT_FALSE(ParseEmulatedIdentity(line)) << line;
}

TEST(FindDevices, WithoutTheEmulatorItsDevicesAreRefused) {
  Devices devices;
  const Status added = Add({"emulated:four-cards"}, devices);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace weir::device
