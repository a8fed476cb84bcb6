// SPDX-License-Identifier: Apache-2.0
#include "opencl/executor/driver.h"

#include <gtest/gtest.h>

namespace weir::opencl {
namespace {

std::vector<NativeDevice> TwoCards() {
  std::vector<NativeDevice> devices(2);
  devices[0].name = "first";
  devices[0].uuid = "0f0f0f0f-1111-2222-3333-444444444444";
  devices[0].pci = "0000:65:00.0";
  devices[1].name = "second";
  devices[1].uuid = "0f0f0f0f-1111-2222-3333-555555555555";
  devices[1].pci = "0000:03:00.0";
  return devices;
}

TEST(ChooseDevice, ANumberIsThatOfTheLibrary) {
  EXPECT_EQ(*ChooseDevice(TwoCards(), ""), 0U);
  EXPECT_EQ(*ChooseDevice(TwoCards(), "1"), 1U);
  EXPECT_EQ(ChooseDevice(TwoCards(), "2").error().code, Errc::kNotFound);
}

TEST(ChooseDevice, AnAddressOrAUuidIsTheSameDeviceWhateverItsNumber) {
  EXPECT_EQ(*ChooseDevice(TwoCards(), "0000:03:00.0"), 1U);
  EXPECT_EQ(*ChooseDevice(TwoCards(), "00000000:03:00.0"), 1U) << "as NVML writes it";
  EXPECT_EQ(*ChooseDevice(TwoCards(), "GPU-0F0F0F0F-1111-2222-3333-555555555555"), 1U);
  EXPECT_EQ(*ChooseDevice(TwoCards(), "0f0f0f0f-1111-2222-3333-444444444444"), 0U);
}

TEST(ChooseDevice, AnUnknownAddressIsAnErrorThatListsTheDevices) {
  const auto chosen = ChooseDevice(TwoCards(), "0000:04:00.0");
  ASSERT_FALSE(chosen);
  EXPECT_NE(chosen.error().message.find("0000:65:00.0, 0000:03:00.0"), std::string::npos) << chosen.error().message;
  EXPECT_FALSE(ChooseDevice({}, ""));
}

}  // namespace
}  // namespace weir::opencl
