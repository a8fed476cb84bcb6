// SPDX-License-Identifier: Apache-2.0
#include "daemon/device_use.h"

#include <gtest/gtest.h>

namespace weir::daemon {
namespace {

constexpr Instant kNow = InstantFromNs(1'000'000'000);

TEST(DeviceUse, IsReadFromTheBodyOfARequest) {
  const auto uses =
      DeviceUsesFrom(R"({"devices":[{"device":"emulated0","busy_ns":9,"processes":[{"key":1,"pid":2,"used_ns":3}]},)"
                     R"({"device":"emulated1","busy_ns":0,"processes":[]}]})");
  ASSERT_TRUE(uses) << uses.error().message;
  ASSERT_EQ(uses->size(), 2U);
  EXPECT_EQ((*uses)[0].device, "emulated0");
  EXPECT_EQ((*uses)[0].busy, Duration{9});
  ASSERT_EQ((*uses)[0].clients.size(), 1U);
  EXPECT_EQ((*uses)[0].clients[0].used, Duration{3});
  EXPECT_TRUE((*uses)[1].clients.empty());
}

TEST(DeviceUse, TheBusyTimeMayBeMissing) {
  const auto uses = DeviceUsesFrom(R"({"devices":[{"device":"gpu0","processes":[]}]})");
  ASSERT_TRUE(uses) << uses.error().message;
  EXPECT_FALSE(uses->front().busy);
}

TEST(DeviceUse, ABodyThatIsWrongIsRefusedWithTheFieldsName) {
  const auto error = [](const char* body) {
    const auto uses = DeviceUsesFrom(body);
    return uses ? std::string("accepted") : uses.error().message;
  };
  EXPECT_NE(error("{}").find("devices must be a list"), std::string::npos);
  EXPECT_NE(error(R"({"devices":[1]})").find("list of objects"), std::string::npos);
  EXPECT_NE(error(R"({"devices":[{"busy_ns":0,"processes":[]}]})").find("device is missing"), std::string::npos);
  EXPECT_NE(error(R"({"devices":[{"device":"d","busy_ns":-1,"processes":[]}]})").find("busy_ns"), std::string::npos);
  EXPECT_NE(error(R"({"devices":[{"device":"d","busy_ns":0}]})").find("processes must be a list"), std::string::npos);
  EXPECT_NE(
      error(R"({"devices":[{"device":"d","busy_ns":0,"processes":[{"key":1,"pid":-1,"used_ns":0}]}]})").find("pid"),
      std::string::npos);
  EXPECT_NE(
      error(
          R"({"devices":[{"device":"d","busy_ns":0,"processes":[{"key":1,"pid":1,"used_ns":18446744073709551615}]}]})")
          .find("used_ns is too large"),
      std::string::npos);
  EXPECT_NE(error(R"({"devices":[{"device":"d","busy_ns":0,"processes":[{"key":1,"pid":1,"used_ns":0},)"
                  R"({"key":1,"pid":2,"used_ns":0}]}]})")
                .find("same key"),
            std::string::npos);
}

TEST(DeviceUse, AnEndedProcessIsKnownForAWhile) {
  ProcessOwners owners;
  const std::vector<ClientUse> clients{{.key = 1, .pid = 10, .used = milliseconds(1)},
                                       {.key = 2, .pid = 11, .used = milliseconds(2)},
                                       {.key = 3, .pid = 12, .used = milliseconds(3)}};
  owners.Ended(kNow, 11, {VgpuId{7}, ProcessId{8}});
  const std::map<pid_t, ProcessOwners::Owner> living{{10, {VgpuId{5}, ProcessId{6}}}};
  const auto counters = owners.CountersOf(kNow, clients, living);
  ASSERT_EQ(counters.size(), 3U);
  EXPECT_EQ(counters[0].vgpu, VgpuId{5});
  EXPECT_EQ(counters[1].vgpu, VgpuId{7});
  EXPECT_EQ(counters[1].total, milliseconds(2));
  EXPECT_FALSE(counters[2].vgpu);

  const auto later = owners.CountersOf(kNow + ProcessOwners::kRetention + milliseconds(1), clients, living);
  EXPECT_FALSE(later[1].vgpu);
}

TEST(DeviceUse, AReusedPidBelongsToTheLivingProcess) {
  ProcessOwners owners;
  owners.Ended(kNow, 10, {VgpuId{1}, ProcessId{1}});
  const std::vector<ClientUse> clients{{.key = 1, .pid = 10, .used = {}}};
  EXPECT_EQ(owners.CountersOf(kNow, clients, {{10, {VgpuId{2}, ProcessId{2}}}})[0].vgpu, VgpuId{2});
  EXPECT_EQ(owners.CountersOf(kNow, clients, {})[0].vgpu, VgpuId{1});
}

}  // namespace
}  // namespace weir::daemon
