// SPDX-License-Identifier: Apache-2.0
#include "cluster/member_state.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cluster/cluster_json.h"

namespace weir::cluster {
namespace {

using engine::NodeDevice;

NodeDevice DeviceNamed(const std::string& name, std::uint64_t mib = 1) {
  return {.name = name, .capacity = {.memory = MiB(mib), .runs_max = 2, .loads = {1, 1, 1, 1}}};
}

class KnownDevicesTest : public ::testing::Test {
 protected:
  bool Update(const std::vector<NodeDevice>& present) { return devices_.Update(now_, present); }

  const NodeDevice first_ = DeviceNamed("device0"), second_ = DeviceNamed("device1");
  Instant now_ = InstantFromNs(1'000'000'000);
  KnownDevices devices_;
};

TEST_F(KnownDevicesTest, ADeviceWhoseHostIsStartedAgainStays) {
  EXPECT_TRUE(Update({first_, second_}));
  EXPECT_FALSE(Update({first_, second_}));
  now_ += seconds(2);
  EXPECT_FALSE(Update({second_}));
  now_ += KnownDevices::kAwayMax - milliseconds(1);
  EXPECT_FALSE(Update({first_, second_}));
  now_ += KnownDevices::kAwayMax - milliseconds(1);
  EXPECT_FALSE(Update({}));
  EXPECT_EQ(devices_.list(), (std::vector{first_, second_}));
}

TEST_F(KnownDevicesTest, ADeviceThatStaysAwayIsRemoved) {
  EXPECT_TRUE(Update({first_, second_}));
  now_ += KnownDevices::kAwayMax;
  EXPECT_TRUE(Update({second_}));
  EXPECT_EQ(devices_.list(), std::vector{second_});
  EXPECT_TRUE(Update({first_, second_}));
  EXPECT_EQ(devices_.list(), (std::vector{second_, first_}));
}

TEST_F(KnownDevicesTest, AChangedDeviceIsReportedAtOnce) {
  EXPECT_TRUE(Update({first_, second_}));
  const NodeDevice larger = DeviceNamed("device0", 2);
  EXPECT_TRUE(Update({second_, larger}));
  EXPECT_EQ(devices_.list(), (std::vector{larger, second_}));
}

TEST(GivenBlobs, AreTrustedForAMinuteAndOnlyOfOneManager) {
  GivenBlobs given;
  const Instant then = InstantFromNs(1'000'000'000);
  given.Add(then, "a");
  EXPECT_TRUE(given.Has(then + GivenBlobs::kTrusted - milliseconds(1), "a"));
  EXPECT_FALSE(given.Has(then, "b"));
  EXPECT_FALSE(given.Has(then + GivenBlobs::kTrusted, "a"));
  given.Add(then + GivenBlobs::kTrusted, "a");
  EXPECT_TRUE(given.Has(then + GivenBlobs::kTrusted, "a"));
  given.Clear();
  EXPECT_FALSE(given.Has(then + GivenBlobs::kTrusted, "a"));
}

TEST(ResultsBody, HoldsOnlyAsManyResultsAsTheManagerTakes) {
  // A control character has six bytes in JSON.
  const engine::RunResult result{.text = std::string(4'096, '\1')};
  ResultsBody body(7);
  std::uint32_t added = 0;
  while (added < 1'000 && body.Add({9, added + 1}, result)) ++added;
  EXPECT_LT(added, 1'000U);
  const nlohmann::json sent = nlohmann::json::parse(body.Text());
  EXPECT_EQ(sent["session"], 7U);
  ASSERT_EQ(sent["results"].size(), added);
  for (std::uint32_t i = 0; i < added; ++i) {
    EXPECT_EQ(AttemptOf(sent["results"][i]).value(), (engine::RunAttempt{9, i + 1}));
    EXPECT_EQ(ResultOf(sent["results"][i]).value(), result);
  }
  EXPECT_LE(body.Text().size(), ResultsBody::kBytesMax + 2);
}

TEST(ResultsBody, AModulesTextNeedNotBeUtf8) {
  ResultsBody body(1);
  ASSERT_TRUE(body.Add({1, 1}, {.text = "a\xff"}));
  EXPECT_EQ(nlohmann::json::parse(body.Text())["results"][0]["text"], "a\xEF\xBF\xBD");
  EXPECT_TRUE(nlohmann::json::parse(ResultsBody(1).Text())["results"].empty());
}

}  // namespace
}  // namespace weir::cluster
