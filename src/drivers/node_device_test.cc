// SPDX-License-Identifier: Apache-2.0
#include "drivers/node_device.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/harness/code_of.h"

namespace weir::drivers {
namespace {

using testing::CodeOf;

std::string DeviceJson(double sold, double guaranteed, double oversold, const char* mode = "adaptive") {
  return nlohmann::json{
      {"name", "embedded"},
      {"oversell", {{"mode", mode}, {"sold", sold}, {"offer", {{"guaranteed", guaranteed}, {"oversold", oversold}}}}}}
      .dump();
}

/// Answers requests for lists from these members and records all other requests.
struct Daemon {
  std::vector<std::string> devices{DeviceJson(0.75, 0, 0.3)};  // for consecutive requests; the last one is repeated
  std::string vgpus = R"([
    {"name":"os-1","device":"embedded","settings":{"cap":0.25,"weight":200},"processes":[{"pid":1}]},
    {"name":"os-2","device":"embedded","settings":{"cap":0.125,"weight":100},"processes":[]},
    {"name":"os-3","device":"other","settings":{"cap":0.5,"weight":100},"processes":[]},
    {"name":"game","device":"embedded","settings":{"cap":0.5,"weight":100},"processes":[]}])";
  std::vector<http::Call> calls;
  http::Answer answer{200, "{}"};
  std::size_t looks = 0;

  NodeDevice::Ask Ask() {
    return [this](const http::Call& call) -> Result<http::Answer> {
      if (call.target == "/v1/devices")
        return http::Answer{200, R"({"devices":[)" + devices[std::min(looks++, devices.size() - 1)] + "]}"};
      if (call.method == "GET") return http::Answer{200, R"({"vgpus":)" + vgpus + "}"};
      calls.push_back(call);
      return answer;
    };
  }
};

TEST(NodeDevice, ReadsTheOfferAndTheConsumersVgpus) {
  Daemon daemon;
  const NodeDevice device = NodeDevice::Find(daemon.Ask(), "", "os").value();
  EXPECT_EQ(device.name(), "embedded");
  const NodeView view = device.See().value();
  EXPECT_TRUE(view.sells);
  EXPECT_EQ(view.offer, 0.3);
  ASSERT_EQ(view.vgpus.size(), 2U);
  EXPECT_EQ(view.vgpus[0].name, "os-1");
  EXPECT_TRUE(view.vgpus[0].attached);
  EXPECT_EQ(view.vgpus[1].cap, 0.125);
  EXPECT_EQ(view.vgpus[0].weight, 200);
  daemon.devices = {DeviceJson(0, 1, 0, "off")};
  EXPECT_FALSE(device.See().value().sells);
}

TEST(NodeDevice, ReadsAgainAfterAConcurrentSale) {
  Daemon daemon;
  const NodeDevice device = NodeDevice::Find(daemon.Ask(), "embedded", "os").value();
  daemon.looks = 0;
  daemon.devices = {DeviceJson(0.5, 0.5, 0), DeviceJson(0.75, 0.25, 0), DeviceJson(0.75, 0.25, 0)};
  EXPECT_EQ(device.See().value().offer, 0.25);
  daemon.looks = 0;
  daemon.devices = {DeviceJson(1, 0, 0), DeviceJson(2, 0, 0), DeviceJson(3, 0, 0), DeviceJson(4, 0, 0)};
  EXPECT_EQ(CodeOf(device.See()), Errc::kBusy);
}

TEST(NodeDevice, CreatesChangesAndRemovesVgpus) {
  Daemon daemon;
  const NodeDevice device = NodeDevice::Find(daemon.Ask(), "", "os").value();
  ASSERT_TRUE(device.Do({.kind = ActionKind::kMakeVgpu, .vgpu = "os-9", .shares = 2, .cap = 0.25, .uid = 1000}));
  EXPECT_EQ(nlohmann::json::parse(daemon.calls[0].body),
            nlohmann::json::parse(R"({"name":"os-9","device":"embedded","cap":0.25,"weight":200.0,"owner_uid":1000})"));
  daemon.answer = {409, R"({"error":{"code":"already-exists","message":"there"}})"};
  EXPECT_TRUE(device.Do({.kind = ActionKind::kMakeVgpu, .vgpu = "os-9", .shares = 2, .cap = 0.25}));
  daemon.answer = {507, R"({"error":{"code":"resource-exhausted","message":"at most 12 % can"}})"};
  EXPECT_EQ(CodeOf(device.Do({.kind = ActionKind::kMakeVgpu, .vgpu = "os-9", .shares = 2, .cap = 0.25})),
            Errc::kResourceExhausted);
  daemon.answer = {409, R"({"error":{"code":"busy","message":"attached"}})"};
  EXPECT_EQ(CodeOf(device.Do({.kind = ActionKind::kRemoveVgpu, .vgpu = "os-9"})), Errc::kBusy);
  daemon.answer = {404, R"({"error":{"code":"not-found","message":"gone"}})"};
  EXPECT_TRUE(device.Do({.kind = ActionKind::kRemoveVgpu, .vgpu = "os-9"}));
  EXPECT_EQ(CodeOf(device.Do({.kind = ActionKind::kResize, .vgpu = "os-9", .shares = 4, .cap = 0.5})), Errc::kNotFound);
  EXPECT_EQ(daemon.calls.back().method, "PATCH");
  EXPECT_EQ(nlohmann::json::parse(daemon.calls.back().body), nlohmann::json::parse(R"({"cap":0.5,"weight":400.0})"));
  EXPECT_EQ(CodeOf(device.Do({.kind = ActionKind::kSqueeze, .vgpu = "os-9", .cap = 0.01})), Errc::kNotFound);
  EXPECT_EQ(nlohmann::json::parse(daemon.calls.back().body), nlohmann::json::parse(R"({"cap":0.01})"));
}

TEST(NodeDevice, RequiresADeviceNameAndNamesUnreadableFields) {
  Daemon daemon;
  daemon.devices = {R"({"name":"a"},{"name":"b"})"};
  const auto several = NodeDevice::Find(daemon.Ask(), "", "os");
  EXPECT_EQ(CodeOf(several), Errc::kInvalidArgument);
  EXPECT_EQ(CodeOf(NodeDevice::Find(daemon.Ask(), "c", "os")), Errc::kNotFound);
  const NodeDevice device = NodeDevice::Find(daemon.Ask(), "a", "os").value();
  for (const char* bad : {R"({"name":"a"})", R"({"name":"a","oversell":7})", R"({"name":7})",
                          R"({"name":"a","oversell":{"mode":"on","sold":"x"}})"}) {
    daemon.devices = {bad};
    EXPECT_EQ(CodeOf(device.See()), Errc::kProtocol) << bad;
  }
}

}  // namespace
}  // namespace weir::drivers
