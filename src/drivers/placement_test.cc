// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "drivers/placement_driver.h"
#include "tests/harness/code_of.h"
#include "tests/harness/model_engines.h"

namespace weir::drivers {
namespace {

using testing::CodeOf;
using testing::ModelPlacement;

constexpr const char* kClass = "CUSTOM_VGPU_SHARE";

struct Cloud {
  ModelPlacement placement;
  Duration slept{};
  PlacementDriver driver{{.host_provider = "n1"},
                         [this](const http::Call& call) { return placement.Ask(call); },
                         [this](Duration d) { slept += d; },
                         1};
  ModelPlacement::Provider& Gpu() { return *placement.Named("n1_gpu"); }
};

TEST(PlacementDriver, ADeviceIsAChildOfItsHostAlsoWhenTheHostComesLater) {
  Cloud cloud;
  ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
  EXPECT_EQ(cloud.Gpu().parent, "");
  const std::string host = cloud.placement.Add("n1");
  cloud.Gpu().traits.push_back("HW_GPU_OTHER");
  ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
  EXPECT_EQ(cloud.Gpu().parent, host);
  EXPECT_EQ(cloud.Gpu().traits, (std::vector<std::string>{"CUSTOM_WEIR_SHARED", "HW_GPU_OTHER"}));
  Cloud other;
  const std::string there = other.placement.Add("n1");
  ASSERT_TRUE(other.driver.Publish("gpu", 8));
  EXPECT_EQ(other.Gpu().parent, there);
}

TEST(PlacementDriver, AnotherNumberOfSharesKeepsWhatIsSellable) {
  Cloud cloud;
  ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
  ASSERT_TRUE(cloud.driver.SetSellable("gpu", 6));
  ASSERT_TRUE(cloud.driver.Publish("gpu", 10));
  EXPECT_EQ(cloud.Gpu().inventories[kClass].total, 10);
  EXPECT_EQ(cloud.driver.ReadUsage("gpu").value().sellable, 6);
}

TEST(PlacementDriver, ReadsAgainAfterAConcurrentAllocation) {
  Cloud cloud;
  ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
  int others = 3;
  cloud.placement.before = [&](const http::Call& call) -> std::optional<http::Answer> {
    if (call.method == "PUT" && others-- > 0) ++cloud.Gpu().generation;
    return {};
  };
  ASSERT_TRUE(cloud.driver.SetSellable("gpu", 12));
  EXPECT_EQ(cloud.Gpu().inventories[kClass].ratio, 1.5);
  EXPECT_GT(cloud.slept, Duration::zero());
}

TEST(PlacementDriver, GivesUpAfterABoundedNumberOfTries) {
  for (const auto& refusal :
       {std::pair{409U, "placement.concurrent_update"}, std::pair{500U, ""}, std::pair{503U, ""}}) {
    Cloud cloud;
    ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
    cloud.placement.asked = 0;
    cloud.placement.before = [&](const http::Call& call) -> std::optional<http::Answer> {
      if (call.method == "PUT") return ModelPlacement::Error(refusal.first, refusal.second);
      return {};
    };
    EXPECT_FALSE(cloud.driver.SetSellable("gpu", 1)) << refusal.first;
    EXPECT_EQ(cloud.placement.asked, 16) << "eight times read and written";
    EXPECT_LE(cloud.slept, seconds(2));
  }
}

TEST(PlacementDriver, DoesNotRetryPermanentErrors) {
  for (const auto& refusal : {std::pair{401U, Errc::kPermissionDenied}, std::pair{403U, Errc::kPermissionDenied},
                              std::pair{409U, Errc::kBusy}, std::pair{400U, Errc::kProtocol}}) {
    Cloud cloud;
    ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
    cloud.placement.asked = 0;
    cloud.placement.before = [&](const http::Call& call) -> std::optional<http::Answer> {
      if (call.method == "PUT") return ModelPlacement::Error(refusal.first, "placement.undefined_code");
      return {};
    };
    EXPECT_EQ(CodeOf(cloud.driver.SetSellable("gpu", 1)), refusal.second) << refusal.first;
    EXPECT_EQ(cloud.placement.asked, 2);
    EXPECT_EQ(cloud.slept, Duration::zero());
  }
}

TEST(PlacementDriver, ARemovedProviderIsNotFoundAndCanBePublishedAgain) {
  Cloud cloud;
  ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
  cloud.placement.providers.clear();
  EXPECT_EQ(CodeOf(cloud.driver.ReadUsage("gpu")), Errc::kNotFound);
  ASSERT_TRUE(cloud.driver.Publish("gpu", 8));
  EXPECT_TRUE(cloud.driver.ReadUsage("gpu"));
}

TEST(PlacementApi, ReadsUrls) {
  const auto place = ParsePlacementUrl("http://controller:8778/placement/").value();
  EXPECT_EQ(place.host, "controller");
  EXPECT_EQ(place.port, 8778);
  EXPECT_EQ(place.base, "/placement");
  EXPECT_EQ(ParsePlacementUrl("http://[::1]:80").value().host, "::1");
  EXPECT_EQ(ParsePlacementUrl("http://a").value().port, 80);
  EXPECT_FALSE(ParsePlacementUrl("http://a").value().encrypted);
  EXPECT_EQ(ParsePlacementUrl("https://a/placement").value().port, 443);
  EXPECT_TRUE(ParsePlacementUrl("https://a").value().encrypted);
  for (const char* bad : {"", "controller", "ftp://a", "https:/a", "https://", "http://", "http://:1", "http://a:0",
                          "http://a:65536", "http://a:1x", "http://a b", "http://u@a", "http://a/?x"})
    EXPECT_EQ(CodeOf(ParsePlacementUrl(bad)), Errc::kInvalidArgument) << bad;
}

TEST(PlacementApi, HostileAnswersAreErrors) {
  const std::string uuid = ModelPlacement::Uuid(1);
  for (const std::string& bad : {std::string(""), std::string("[]"), std::string(R"({"resource_providers":{}})"),
                                 std::string(R"({"resource_providers":[1]})"),
                                 std::string(R"({"resource_providers":[{"uuid":"../../x","generation":1}]})"),
                                 R"({"resource_providers":[{"uuid":")" + uuid + R"(","generation":-1}]})",
                                 std::string(R"({"resource_providers":[{},{}]})")})
    EXPECT_EQ(CodeOf(ParsePlacementProviders({200, bad})), Errc::kProtocol) << bad;
  for (const char* bad :
       {R"({})", R"({"resource_provider_generation":1,"total":0,"reserved":0,"allocation_ratio":1})",
        R"({"resource_provider_generation":1,"total":8,"reserved":0,"allocation_ratio":-1})",
        R"({"resource_provider_generation":1,"total":8,"reserved":0,"allocation_ratio":"1"})",
        R"({"resource_provider_generation":1,"total":18446744073709551615,"reserved":0,"allocation_ratio":1})",
        R"({"resource_provider_generation":1,"total":8.5,"reserved":0,"allocation_ratio":1})"})
    EXPECT_EQ(CodeOf(ParsePlacementInventory({200, bad})), Errc::kProtocol) << bad;
  for (const std::string& bad :
       {std::string(R"({"allocations":[]})"), std::string(R"({"allocations":{"x":{"resources":{}}}})"),
        R"({"allocations":{")" + uuid + R"(":{"resources":{"CUSTOM_VGPU_SHARE":0}}}})",
        R"({"allocations":{")" + uuid + R"(":{"resources":{"CUSTOM_VGPU_SHARE":-3}}}})",
        R"({"allocations":{")" + uuid + R"(":7}})"})
    EXPECT_EQ(CodeOf(ParsePlacementAllocations({200, bad}, kClass)), Errc::kProtocol) << bad;
  const auto others =
      ParsePlacementAllocations({200, R"({"allocations":{")" + uuid + R"(":{"resources":{"VCPU":2}}}})"}, kClass);
  EXPECT_TRUE(others && others->empty());
}

TEST(PlacementApi, ARefusalIsOnePrintableLine) {
  const http::Answer answer{409, "{\"errors\":[{\"detail\":\"a\\nb\\u001b[2J\\u2026\"}]}"};
  EXPECT_EQ(RefusalOf(answer, "asked")->error.message, "asked: HTTP 409 a?b?[2J???");
}

RC_GTEST_PROP(PlacementApiLaws, NoBodyIsTooHostile, (const std::string& body, unsigned status)) {
  const http::Answer answer{status % 600, body};
  (void)ParsePlacementProviders(answer);
  (void)ParsePlacementInventory(answer);
  (void)ParsePlacementAllocations(answer, kClass);
  (void)ParsePlacementTraits(answer);
  (void)RefusalOf(answer, "asked");
  const http::Answer refused{409, R"({"errors":[{"code":)" + body + "}]}"};
  RC_ASSERT(RefusalOf(refused, "asked").has_value());
}

}  // namespace
}  // namespace weir::drivers
