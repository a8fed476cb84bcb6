// SPDX-License-Identifier: Apache-2.0
#include "account/drm_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/harness/temp_folder.h"

namespace weir::account {
namespace {

namespace fs = std::filesystem;

/// A folder with the structure of /proc.
class DrmSourceOfAProc : public ::testing::Test {
 protected:
  void Opens(int pid, int fd, const std::string& device) {
    fs::create_directories(Of(pid) / "fd");
    fs::create_directories(Of(pid) / "fdinfo");
    fs::create_symlink(device, Of(pid) / "fd" / std::to_string(fd));
  }
  void Shows(int pid, int fd, const DrmClient& client) {
    std::ofstream(Of(pid) / "fdinfo" / std::to_string(fd)) << "pos:\t0\n" << FdinfoText(client);
  }
  void Has(int pid, int fd, std::uint64_t id, Duration busy, const std::string& pdev = "0000:03:00.0") {
    if (!fs::exists(fs::symlink_status(Of(pid) / "fd" / std::to_string(fd)))) Opens(pid, fd, "/dev/dri/renderD128");
    Shows(pid, fd, {.driver = "amdgpu", .pdev = pdev, .id = id, .engines = {{"gfx", busy}}});
  }
  [[nodiscard]] fs::path Of(int pid) const { return folder.path() + "/" + std::to_string(pid); }
  std::vector<ClientUse> Read() { return Read(source); }
  static std::vector<ClientUse> Read(DrmSource& source) {
    auto uses = source.Read();
    EXPECT_TRUE(uses && uses->size() == 1);
    if (!uses || uses->empty()) return {};
    EXPECT_FALSE(uses->front().busy);
    return std::move(uses->front().clients);
  }

  testing::TempFolder folder;
  Instant now = InstantFromNs(1'000'000'000);
  DrmSource source{"0000:03:00.0", folder.path(), [this] { return now; }};
  DrmSource bounded{"0000:03:00.0", folder.path(), [this] { return now; }, {.files = 20, .clients = 3}};
};

TEST_F(DrmSourceOfAProc, ListsTheClientsOfItsDevice) {
  Has(10, 4, 1, milliseconds(5));
  Has(11, 7, 2, milliseconds(6));
  Has(12, 3, 3, milliseconds(7), "0000:04:00.0");
  Opens(13, 3, "/dev/null");
  const auto clients = Read();
  ASSERT_EQ(clients.size(), 2U);
  EXPECT_EQ(clients[0].pid, 10);
  EXPECT_EQ(clients[0].used, milliseconds(5));
  EXPECT_EQ(clients[1].key, 2U);
  EXPECT_EQ(clients[1].used, milliseconds(6));
}

TEST_F(DrmSourceOfAProc, CountsAnInheritedFileOnce) {
  Has(10, 4, 1, milliseconds(5));
  Has(11, 4, 1, milliseconds(5));
  Has(10, 5, 1, milliseconds(5));
  const auto clients = Read();
  ASSERT_EQ(clients.size(), 1U);
  EXPECT_EQ(clients[0].used, milliseconds(5));
}

TEST_F(DrmSourceOfAProc, FindsNewProcessesOnceASecondAndReadsKnownOnesEachTime) {
  Has(10, 4, 1, milliseconds(5));
  EXPECT_EQ(Read().size(), 1U);
  Has(10, 4, 1, milliseconds(9));
  Has(11, 4, 2, milliseconds(1));
  now += milliseconds(999);
  const auto known = Read();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].used, milliseconds(9));
  now += milliseconds(1);
  EXPECT_EQ(Read().size(), 2U);
  fs::remove_all(Of(10));
  EXPECT_EQ(Read().size(), 1U);
}

TEST_F(DrmSourceOfAProc, FilesThatAreNoClientsOfTheDeviceDoNotCount) {
  for (int fd = 0; fd < 30; ++fd) {
    Opens(100, fd, "/dev/dri/by-path");
    Shows(100, fd, {.driver = "amdgpu", .pdev = "0000:03:00.0", .id = 100U + static_cast<unsigned>(fd)});
    Opens(101, fd, "/dev/dri/renderD129");
    Has(102, fd, 200U + static_cast<unsigned>(fd), milliseconds(1), "0000:04:00.0");
  }
  for (int pid = 10; pid < 13; ++pid) Has(pid, 4, static_cast<unsigned>(pid), milliseconds(5));
  EXPECT_EQ(Read(bounded).size(), 3U);
}

TEST_F(DrmSourceOfAProc, ManyDescriptorsOfOneClientLeaveRoomForOthers) {
  for (int fd = 0; fd < 30; ++fd) Has(10, fd, 1, milliseconds(5));
  Has(11, 4, 2, milliseconds(6));
  Has(12, 4, 3, milliseconds(6));
  EXPECT_EQ(Read(bounded).size(), 3U);
}

TEST_F(DrmSourceOfAProc, AClientIsListedOnceItHasUsedTheDevice) {
  for (int fd = 0; fd < 10; ++fd) Has(10, fd, static_cast<unsigned>(fd), Duration{0});
  EXPECT_TRUE(Read(bounded).empty());
  Has(10, 4, 4, milliseconds(2));
  const auto clients = Read(bounded);
  ASSERT_EQ(clients.size(), 1U);
  EXPECT_EQ(clients[0].key, 4U);
  EXPECT_EQ(clients[0].used, milliseconds(2));
}

TEST_F(DrmSourceOfAProc, TooManyClientsAreAnErrorAndNotAPartOfTheAccount) {
  for (int fd = 0; fd < 21; ++fd) Has(10, fd, static_cast<unsigned>(fd), fd < 3 ? milliseconds(1) : Duration{0});
  auto uses = bounded.Read();
  ASSERT_FALSE(uses);
  EXPECT_EQ(uses.error().code, Errc::kResourceExhausted);
  EXPECT_NE(uses.error().message.find("more than 20 open files"), std::string::npos) << uses.error().message;
  fs::remove_all(Of(10) / "fd" / "20");
  now += DrmSource::kSearchEvery;
  EXPECT_EQ(Read(bounded).size(), 3U);
  Has(10, 4, 4, milliseconds(1));
  uses = bounded.Read();
  ASSERT_FALSE(uses);
  EXPECT_NE(uses.error().message.find("more than 3 clients"), std::string::npos) << uses.error().message;
}

TEST_F(DrmSourceOfAProc, RefusesADriverWithoutTimes) {
  Opens(10, 4, "/dev/dri/renderD128");
  std::ofstream(Of(10) / "fdinfo" / "4") << "drm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t1\n"
                                            "drm-cycles-rcs:\t8257\ndrm-total-cycles-rcs:\t99\n";
  const auto uses = source.Read();
  ASSERT_FALSE(uses);
  EXPECT_EQ(uses.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace weir::account
