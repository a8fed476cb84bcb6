// SPDX-License-Identifier: Apache-2.0
#include "device/drm_device.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/temp_folder.h"

namespace weir::device {
namespace {

namespace fs = std::filesystem;

class DrmDevices : public ::testing::Test {
 protected:
  void Add(const std::string& node, const std::string& uevent) {
    fs::create_directories(fs::path(folder.path()) / node / "device");
    std::ofstream(fs::path(folder.path()) / node / "device" / "uevent") << uevent;
  }
  testing::TempFolder folder;
};

TEST_F(DrmDevices, AreFoundByIndexNodeAndPciAddress) {
  Add("card0", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
  Add("renderD129", "DRIVER=i915\nPCI_CLASS=30000\nPCI_ID=8086:9A49\nPCI_SLOT_NAME=0000:00:02.0\n");
  Add("renderD128", "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:73BF\nPCI_SLOT_NAME=0000:03:00.0\n");
  Add("renderD130", "DRIVER=vgem\n");
  for (const char* wanted : {"0", "renderD128", "0000:03:00.0"}) {
    const auto found = FindDrmDevice(wanted, folder.path());
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->pci, "0000:03:00.0");
    EXPECT_EQ(found->model, "amdgpu 1002:73bf");
  }
  EXPECT_EQ(FindDrmDevice("1", folder.path())->driver, "i915");
}

TEST_F(DrmDevices, AnUnknownOneIsRefusedWithTheChoices) {
  const auto none = FindDrmDevice("0", folder.path());
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Errc::kNotFound);
  EXPECT_NE(none.error().message.find("lists none"), std::string::npos);
  Add("renderD128", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n");
  const auto other = FindDrmDevice("7", folder.path());
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("0000:03:00.0 (renderD128, amdgpu)"), std::string::npos)
      << other.error().message;
}

}  // namespace
}  // namespace weir::device
