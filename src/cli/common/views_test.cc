// SPDX-License-Identifier: Apache-2.0
#include "cli/common/views.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace weir::cli {
namespace {

using nlohmann::json;

TEST(Views, ReadTheExampleOfTheContract) {
  const json reply =
      json::parse(R"({"vgpus": [{"name": "a", "id": 3, "device": "embedded", "state": "running", "ephemeral": true,
    "settings": {"weight": 100, "cap": 1.0, "fps": 60, "latency_ms": 20, "memory_min_bytes": 67108864, "memory_max_bytes": 0,
                 "partition": "never"},
    "memory": {"elastic": true, "launches_in_parts": 1, "parts": 2, "launches_not_cut": 3, "parts_in_bytes": 4, "parts_out_bytes": 5},
    "attach": "/run/weir/vgpu/a.sock",
    "processes": [{"id": 9, "pid": 4242, "program": "glmark2", "api": "gl", "renderer": "llvmpipe", "meter": "worker-cpu-time"}],
    "totals": {"frames": 7, "late_frames": 1, "gpu_ns": 5000000000, "wait_ns": 3},
    "window": {"fps": 60.0, "frame_ms_p99": 17.4, "gpu_share": 0.5}}]})");
  const auto vgpus = VgpusFromJson(reply);
  ASSERT_TRUE(vgpus) << vgpus.error().message;
  const VgpuView& a = vgpus->at(0);
  EXPECT_EQ(a.name, "a");
  EXPECT_TRUE(a.ephemeral);
  EXPECT_EQ(a.settings.weight, 100U);
  EXPECT_EQ(a.processes.at(0).pid, 4242);
  EXPECT_EQ(a.totals.gpu_ns, 5'000'000'000);
  EXPECT_DOUBLE_EQ(a.window.gpu_share, 0.5);
  EXPECT_EQ(PromiseText(a), "60 fps, 20 ms");
  EXPECT_EQ(MemoryText(a), "64M:any");
  EXPECT_EQ(a.settings.partition, core::PartitionMode::kStay);
  EXPECT_EQ(a.memory.stats.launches_in_parts, 1U);
  EXPECT_EQ(a.memory.stats.parts, 2U);
  EXPECT_EQ(a.memory.stats.launches_not_cut, 3U);
  EXPECT_EQ(a.memory.stats.parts_in.count, 4U);
  EXPECT_EQ(a.memory.stats.parts_out.count, 5U);
}

TEST(Views, ShowTasksOfComputingPrograms) {
  VgpuView v;
  EXPECT_STREQ(RateUnit(v), "fps");
  v.processes.resize(1);
  v.processes[0].presents = false;
  EXPECT_STREQ(RateUnit(v), "tasks/s");
  v.processes.resize(2);
  v.processes[1].api = "gl";
  EXPECT_STREQ(RateUnit(v), "fps") << "its frames are what is looked at";
  v.settings.tasks_per_s = 200;
  EXPECT_STREQ(RateUnit(v), "tasks/s");
  EXPECT_EQ(PromisedRate(v), 200);
  EXPECT_EQ(PromiseText(v), "200 tasks/s");
}

TEST(Views, TellOffScreenProgramsByWhatTheDaemonSays) {
  const auto read = [](const char* process) {
    return VgpuFromJson(json::parse(std::string(R"({"name": "a", "processes": [)") + process + "]}"))->processes.at(0);
  };
  EXPECT_EQ(ApiText(read(R"({"api": "gl", "presents": true})")), "gl");
  EXPECT_EQ(ApiText(read(R"({"api": "gl", "presents": false})")), "gl, off screen");
  EXPECT_EQ(ApiText(read(R"({"api": "opencl", "presents": false})")), "opencl");
  EXPECT_TRUE(read(R"({"api": "gl"})").presents) << "a daemon that does not say it";
  EXPECT_FALSE(read(R"({"api": "opencl", "presents": "yes"})").presents);
}

TEST(Views, SkipUnknownFieldsAndSurviveWrongTypes) {
  const json odd =
      json::parse(R"({"name": "a", "news": [1], "settings": 3, "processes": "x", "totals": null, "window": [],
    "ephemeral": "yes", "state": 7})");
  const auto vgpu = VgpuFromJson(odd);
  ASSERT_TRUE(vgpu) << vgpu.error().message;
  EXPECT_EQ(vgpu->state, "");
  EXPECT_EQ(vgpu->totals.frames, 0);
  EXPECT_EQ(PromiseText(*vgpu), "");
}

TEST(Views, ReadWarningsAboutPromises) {
  const auto vgpu = VgpuFromJson(json::parse(R"({"name": "a", "promise": {"warnings": ["ignored", 7]}})"));
  EXPECT_EQ(vgpu->warnings, std::vector<std::string>{"ignored"});
  EXPECT_TRUE(VgpuFromJson(json::parse(R"({"name": "a", "promise": null})"))->warnings.empty());
  EXPECT_EQ(DeviceFromJson(json::parse(R"({"name": "d", "warnings": ["ignored"]})"))->warnings.size(), 1U);
}

TEST(Views, RequireANameAndAList) {
  EXPECT_EQ(VgpuFromJson(json::parse("{}")).error().code, Errc::kProtocol);
  EXPECT_EQ(VgpuFromJson(json::parse("[]")).error().code, Errc::kProtocol);
  EXPECT_EQ(VgpusFromJson(json::parse(R"({"vgpus": {}})")).error().code, Errc::kProtocol);
  EXPECT_EQ(DevicesFromJson(json::parse("{}")).error().code, Errc::kProtocol);
}

TEST(Views, WriteADevicesCpusAsRanges) {
  const auto device =
      DeviceFromJson(json::parse(R"({"name": "embedded", "cpus": [0, 1, 2, 5, 7, 8], "policy": "reserve",
    "policy_params": {"period_ms": 1}})"));
  ASSERT_TRUE(device);
  EXPECT_EQ(device->cpus, "0-2,5,7-8");
  EXPECT_EQ(device->policy_params, "period_ms=1");
}

TEST(Views, ReadHowADeviceIsSold) {
  const auto device = DeviceFromJson(json::parse(R"({"name": "embedded", "oversell": {"mode": "adaptive",
    "params": {"ratio": 1.5, "odd": "x"}, "sold": 1.5, "load": 0.4, "offer": {"guaranteed": 0, "oversold": 0.3, "reason": "r"},
    "account": {"revenue": 3, "penalty": 1, "cost": 0.5, "net": 1.5, "sold_s": 9, "broken_s": 2}}})"));
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->oversell.on());
  EXPECT_EQ(device->oversell.params.size(), 1U);
  EXPECT_DOUBLE_EQ(device->oversell.oversold, 0.3);
  EXPECT_DOUBLE_EQ(device->oversell.net, 1.5);
  EXPECT_DOUBLE_EQ(device->oversell.broken_s, 2);
  EXPECT_FALSE(DeviceFromJson(json::parse(R"({"name": "old"})"))->oversell.on());
  const auto vgpu = VgpuFromJson(json::parse(R"({"name": "a", "sale": "oversold", "cap_now": 0.33})"));
  ASSERT_TRUE(vgpu);
  EXPECT_EQ(vgpu->sale, "oversold");
  EXPECT_DOUBLE_EQ(vgpu->cap_now, 0.33);
}

TEST(Views, ReadTheTableOfPolicies) {
  const auto policies =
      PoliciesFromJson(json::parse(R"({"policies": [{"name": "none", "summary": "first come", "params": []},
    {"name": "reserve", "summary": "eq. 1", "params": [{"name": "period_ms", "unit": "ms", "default": 1, "min": 0.5, "max": 10,
    "summary": "t"}]}]})"));
  ASSERT_TRUE(policies);
  EXPECT_EQ(policies->at(0).params.size(), 0U);
  EXPECT_DOUBLE_EQ(policies->at(1).params.at(0).min, 0.5);
}

}  // namespace
}  // namespace weir::cli
