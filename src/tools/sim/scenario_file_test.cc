// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario_file.h"

#include <gtest/gtest.h>

#include <set>

#include "tools/sim/play.h"

namespace weir::cli {
namespace {

/// Ten lines; what a test adds begins at the eleventh.
constexpr std::string_view kLeast = R"(name = "least"
seconds = 1

[[tenant]]
name = "a"
gpu_ms = 10

[[run]]
policy = "none"

)";

sim::Scenario Read(const std::string& more = "") {
  auto scenario = ParseScenario(std::string(kLeast) + more, "x.toml");
  EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().message);
  return scenario ? *scenario : sim::Scenario{};
}

/// The error of the least scenario followed by `more`.
std::string FaultOf(const std::string& more) {
  const auto scenario = ParseScenario(std::string(kLeast) + more, "x.toml");
  EXPECT_FALSE(scenario) << more;
  if (scenario) return "";
  EXPECT_EQ(scenario.error().code, Errc::kInvalidArgument);
  return scenario.error().message;
}

TEST(ScenarioFile, EveryOneThatWeShipIsRead) {
  const auto names = ListScenarios();
  ASSERT_TRUE(names);
  EXPECT_GE(names->size(), 13u);
  for (const std::string& name : *names) {
    const auto scenario = LoadScenario(name);
    ASSERT_TRUE(scenario) << scenario.error().message;
    EXPECT_EQ(scenario->name, name);
    EXPECT_FALSE(scenario->title.empty()) << name;
    EXPECT_FALSE(scenario->source.empty()) << name;
    EXPECT_FALSE(scenario->about.empty()) << name;
    EXPECT_FALSE(scenario->expectations.empty()) << name;
  }
}

TEST(ScenarioFile, UnitsAreThoseOfTheKeys) {
  const sim::Scenario s = ParseScenario(R"(
name = "units"
seconds = 40
warm_up = 2.5
seed = 7
[device]
name = "card"
switch_us = 20
cpu_steal = 0.25
copies = 2
[[tenant]]
name = "a"
weight = 30
cap = 0.5
fps = 60
latency_ms = 40
cpu_ms = 1.5
gpu_ms = 8.25
jitter = 0.1
spike = 0.5
spike_every = 40
present_ms = 0.4
batch_ms = 2.5
queue = 4
limit_fps = 120
processes = 2
start = 5
end = 20
repeat = false
device = 1
[[run]]
policy = "sla-aware"
params = { fps = 25, sync = "flush" }
)",
                                        "x.toml")
                              .value();
  EXPECT_EQ(s.span, seconds(40));
  EXPECT_EQ(s.warm_up, milliseconds(2500));
  EXPECT_EQ(s.seed, 7u);
  ASSERT_EQ(s.devices.size(), 2u);
  EXPECT_EQ(s.devices[1].model.switch_cost, microseconds(20));
  EXPECT_DOUBLE_EQ(s.devices[1].cpu_steal, 0.25);
  const sim::Tenant& a = s.tenants.at(0);
  EXPECT_EQ(a.settings.weight, 30u);
  EXPECT_DOUBLE_EQ(a.settings.cap.Fraction(), 0.5);
  EXPECT_EQ(a.settings.latency, milliseconds(40));
  EXPECT_EQ(a.scenes.at(0).cpu, microseconds(1500));
  EXPECT_EQ(a.scenes.at(0).gpu, microseconds(8250));
  EXPECT_EQ(a.scenes.at(0).spike_every, 40);
  EXPECT_EQ(a.present, microseconds(400));
  EXPECT_EQ(a.batch, microseconds(2500));
  EXPECT_EQ(a.queue, 4);
  EXPECT_EQ(a.processes, 2);
  EXPECT_EQ(a.start, seconds(5));
  EXPECT_EQ(a.end, seconds(20));
  EXPECT_EQ(a.device, 1u);
  EXPECT_FALSE(a.repeat);
  EXPECT_EQ(s.runs.at(0).label, "sla-aware");
  EXPECT_DOUBLE_EQ(s.runs.at(0).params.at("fps"), 25);
  EXPECT_DOUBLE_EQ(s.runs.at(0).params.at("sync"), 2);
}

TEST(ScenarioFile, CopiesAreNumberedAndSpreadOverTheDevices) {
  const sim::Scenario s = ParseScenario(R"(
name = "copies"
[device]
copies = 2
[[tenant]]
name = "a"
gpu_ms = 1
copies = 3
[[run]]
policy = "none"
)",
                                        "x.toml")
                              .value();
  ASSERT_EQ(s.tenants.size(), 3u);
  EXPECT_EQ(s.tenants[2].name, "a-3");
  EXPECT_EQ(s.tenants[1].device, 1u);
  EXPECT_EQ(s.tenants[2].device, 0u);
}

TEST(ScenarioFile, NamesInExpectationsAreCheckedBeforeARun) {
  const auto fault = [](const std::string& rest) { return FaultOf("[[expect]]\nmin = 1\n" + rest); };
  EXPECT_EQ(fault("metric = \"fsp\"\nrun = \"none\"\ntenant = \"a\"\n"),
            "x.toml:11: no metric 'fsp'; docs/scenarios.md lists them; did you mean 'fps'?");
  EXPECT_EQ(fault("metric = \"mean:fsp\"\nrun = \"no\"\ntenant = \"a\"\n"),
            "x.toml:11: no metric 'fsp'; docs/scenarios.md lists them; did you mean 'fps'?");
  EXPECT_EQ(fault("metric = \"fps\"\nrun = \"some\"\ntenant = \"a\"\n"), "x.toml:11: no run 'some'");
  EXPECT_EQ(fault("metric = \"fps\"\nrun = \"none\"\ntenant = \"b\"\n"), "x.toml:11: run 'none' has no tenant 'b'");
  EXPECT_EQ(fault("metric = \"fps\"\nrun = \"none\"\ntenant = \"b*\"\n"), "x.toml:11: run 'none' has no tenant 'b*'");
  Read("[[expect]]\nmin = 1\nmetric = \"fps\"\nrun = \"none\"\ntenant = \"a*\"\n");
}

TEST(ScenarioFile, ASweepIsARunForEachValue) {
  const sim::Scenario s = Read(R"([[sweep]]
label = "fps"
policy = "sla-aware"
tenant = "a"
fps = [30, 12.5]
)");
  ASSERT_EQ(s.runs.size(), 3u);
  EXPECT_EQ(s.runs[1].label, "fps-30");
  EXPECT_EQ(s.runs[2].label, "fps-12.5");
  EXPECT_DOUBLE_EQ(s.runs[2].settings.at("a").fps, 12.5);
}

TEST(ScenarioFile, ASweepMayBeOfAParameterOfSelling) {
  const sim::Scenario s = Read(R"([[sweep]]
label = "low"
policy = "cap"
oversell = "adaptive"
oversell_params = { steal = 0.1 }
oversell_param = "low_line"
values = [0.5, 0.75]
)");
  ASSERT_EQ(s.runs.size(), 3u);
  EXPECT_EQ(s.runs[1].label, "low-0.5");
  EXPECT_EQ(s.runs[2].oversell, core::OversellMode::kAdaptive);
  EXPECT_DOUBLE_EQ(s.runs[2].oversell_params.at("low_line"), 0.75);
  EXPECT_DOUBLE_EQ(s.runs[2].oversell_params.at("steal"), 0.1) << "those that are not swept are the sweep's";
}

TEST(ScenarioFile, ASweepOfAParameterOfSellingNamesOneThatThereIs) {
  const std::string head = "[[sweep]]\nlabel = \"s\"\noversell = \"adaptive\"\n";
  const auto fault = [&](const std::string& rest) { return FaultOf(head + rest); };
  EXPECT_NE(fault("oversell_param = \"low\"\nvalues = [0.5]\n").find("no parameter 'low'; known: ratio, stage_ms"),
            std::string::npos);
  EXPECT_NE(fault("oversell_param = \"low_line\"\nvalues = [0.5, 1.5]\n").find("low_line = 1.5 is outside 0 … 1"),
            std::string::npos);
  EXPECT_NE(fault("oversell_param = \"low_line\"\n").find("needs 'values'"), std::string::npos);
  EXPECT_NE(FaultOf("[[sweep]]\nlabel = \"s\"\noversell_param = \"low_line\"\nvalues = [1]\n").find("needs 'oversell'"),
            std::string::npos);
}

TEST(ScenarioFile, ARunChangesTheSettingsItNames) {
  const sim::Scenario s = Read(R"([[run]]
label = "capped"
policy = "none"
[run.settings]
a = { cap = 0.3 }
[[run.change]]
at = 0.5
tenant = "a"
cap = 0.6
)");
  EXPECT_DOUBLE_EQ(s.runs.at(1).settings.at("a").cap.Fraction(), 0.3);
  EXPECT_DOUBLE_EQ(s.runs.at(1).changes.at(0).settings.cap.Fraction(), 0.6);
  EXPECT_EQ(s.runs.at(1).changes.at(0).at, milliseconds(500));
}

TEST(ScenarioFile, ARunChangesHowItsDevicesAreSold) {
  const sim::Scenario s = Read(R"([[run]]
policy = "cap"
[[run.change]]
at = 0.5
oversell = "static"
oversell_params = { ratio = 3 }
)");
  const sim::ScenarioChange& change = s.runs.at(1).changes.at(0);
  EXPECT_EQ(change.oversell, core::OversellMode::kStatic);
  EXPECT_DOUBLE_EQ(change.oversell_params.at("ratio"), 3);
  EXPECT_FALSE(change.of_policy());
  EXPECT_NE(
      FaultOf("[[run]]\npolicy = \"cap\"\n[[run.change]]\nat = 0.5\noversell = \"rent\"\n").find("no way of selling"),
      std::string::npos);
}

TEST(ScenarioFile, AnUnknownKeyIsRefusedWithItsLine) {
  EXPECT_EQ(FaultOf("[[tenant]]\nname = \"b\"\ngpu_ms = 1\nweigth = 3\n"), "x.toml:14: unknown key 'weigth'");
  EXPECT_EQ(FaultOf("[devices]\nname = \"b\"\n"), "x.toml:11: unknown key 'devices'");
  EXPECT_EQ(FaultOf("[[expect]]\nmetric = \"fps\"\nrun = \"none\"\ntenant = \"a\"\nmin = 1\nwarn = true\n"),
            "x.toml:16: unknown key 'warn'");
}

TEST(ScenarioFile, AValueOfTheWrongTypeOrSizeIsRefusedWithItsLine) {
  const std::string tenant = "[[tenant]]\nname = \"b\"\ngpu_ms = 1\n";
  EXPECT_EQ(FaultOf(tenant + "weight = \"3\"\n"), "x.toml:14: 'weight' is not a number from 1 to 10000");
  EXPECT_EQ(FaultOf(tenant + "weight = 1.5\n"), "x.toml:14: 'weight' is not a whole number");
  EXPECT_EQ(FaultOf(tenant + "cap = 1.5\n"), "x.toml:14: 'cap' is not a number from 0.01 to 1");
  EXPECT_EQ(FaultOf(tenant + "repeat = 1\n"), "x.toml:14: 'repeat' is neither true nor false");
  EXPECT_EQ(FaultOf(tenant + "device = 1\n"), "x.toml:14: 'device' is not a number from 0 to 0");
  EXPECT_EQ(FaultOf("[[tenant]]\nname = 7\ngpu_ms = 1\n"), "x.toml:12: 'name' is not a text");
  EXPECT_EQ(FaultOf("[run]\npolicy = \"none\"\n").substr(0, 10), "x.toml:11:");
  EXPECT_EQ(FaultOf("[[run]]\nlabel = \"r\"\nonly = \"a\"\n"), "x.toml:13: 'only' is not a list");
  EXPECT_EQ(FaultOf("[[run]]\nlabel = \"r\"\nonly = [\"a\", 1]\n"),
            "x.toml:13: 'only' holds something that is not a text");
  EXPECT_EQ(FaultOf("expect = 3\n"), "x.toml:11: unknown key 'expect'") << "it belongs to the run before it";
}

TEST(ScenarioFile, WhatIsNotTomlIsRefusedWithItsLine) {
  EXPECT_EQ(FaultOf("[[run]\n").substr(0, 10), "x.toml:11:");
  EXPECT_EQ(FaultOf("[[tenant]]\nname = \"b\"\nname = \"c\"\n").substr(0, 10), "x.toml:13:") << "a key twice";
}

TEST(ScenarioFile, APolicyAndItsParametersMustExist) {
  EXPECT_TRUE(FaultOf("[[run]]\npolicy = \"fair\"\n").starts_with("x.toml:12: unknown policy 'fair'"))
      << FaultOf("[[run]]\npolicy = \"fair\"\n");
  const std::string run = "[[run]]\nlabel = \"r\"\npolicy = \"reserve\"\n";
  EXPECT_NE(FaultOf(run + "params = { period = 1 }\n").find("'period'"), std::string::npos);
  EXPECT_NE(FaultOf(run + "params = { period_ms = 0 }\n").find("period_ms"), std::string::npos);
  EXPECT_NE(FaultOf(run + "params = { period_ms = true }\n").find("x.toml:14:"), std::string::npos);
  EXPECT_NE(FaultOf("[[run]]\npolicy = \"sla-aware\"\nparams = { sync = \"never\" }\n").find("x.toml:13:"),
            std::string::npos);
}

TEST(ScenarioFile, AnExpectationThatCannotFailIsRefused) {
  EXPECT_EQ(FaultOf("[[expect]]\nmetric = \"fps\"\nrun = \"none\"\ntenant = \"a\"\n"),
            "x.toml:11: an expectation needs 'min', 'max' or both: without them it can't fail");
}

TEST(ScenarioFile, NamesAreGivenOnce) {
  EXPECT_EQ(FaultOf("[[tenant]]\nname = \"a\"\ngpu_ms = 1\n"), "x.toml:11: two tenants are called 'a'");
  EXPECT_EQ(FaultOf("[[run]]\npolicy = \"none\"\n"), "x.toml:11: two runs are called 'none'");
  EXPECT_EQ(FaultOf("[[sweep]]\nlabel = \"s\"\npolicy = \"none\"\ntenant = \"a\"\nfps = [30, 30]\n"),
            "x.toml:11: two runs are called 's-30'");
}

TEST(ScenarioFile, WhatIsNamedMustExist) {
  EXPECT_EQ(FaultOf("[[run]]\nlabel = \"r\"\nonly = [\"b\"]\n"), "x.toml:11: no tenant 'b'");
  EXPECT_EQ(FaultOf("[[run]]\nlabel = \"r\"\n[run.settings]\nb = { fps = 1 }\n").substr(9), ": no tenant 'b'");
  EXPECT_EQ(FaultOf("[[sweep]]\nlabel = \"s\"\ntenant = \"b\"\nfps = [1]\n"), "x.toml:11: no tenant 'b'");
  EXPECT_EQ(FaultOf("[[sweep]]\nlabel = \"s\"\ntenant = \"a\"\n"),
            "x.toml:11: a sweep needs 'fps' or 'cap', a list of numbers");
  EXPECT_EQ(FaultOf("[[sweep]]\nlabel = \"s\"\ntenant = \"a\"\nfps = [2000]\n"),
            "x.toml:11: a sweep's 'fps' are from 0 to 1000");
}

TEST(ScenarioFile, AFaultHasAKindAndAnEnd) {
  EXPECT_EQ(FaultOf("[[fault]]\nkind = \"fire\"\nat = 1\nuntil = 2\n"),
            "x.toml:11: no fault 'fire': daemon-crash, process-kill, device-stall, cpu-steal");
  EXPECT_EQ(FaultOf("[[fault]]\nkind = \"device-stall\"\nat = 2\nuntil = 2\n"),
            "x.toml:11: a fault needs 'until' after its 'at'");
}

TEST(ScenarioFile, MemoryMayBeElasticAndChangeWithTheScene) {
  const auto scenario = ParseScenario(R"(name = "x"
[device]
memory_mb = 1024
cpus = 8
[[tenant]]
name = "a"
memory_min_mb = 64
command_mb = 10
dirty = 0.5
memory_mb = 100
  [[tenant.scene]]
  gpu_ms = 1
  seconds = 2
  memory_mb = 300
  [[tenant.scene]]
  gpu_ms = 1
[[tenant]]
name = "b"
kind = "cpu"
cpu_ms = 4
[[run]]
memory = "elastic"
memory_params = { layout = "scattered", turn_ms = 50 }
memory_max_mb = 512
copy_cpus = 0.5
)",
                                      "x.toml");
  ASSERT_TRUE(scenario) << scenario.error().message;
  const sim::Tenant& a = scenario->tenants[0];
  EXPECT_EQ(a.settings.memory_min, MiB(64));
  EXPECT_EQ(a.command, MiB(10));
  EXPECT_EQ(a.dirty, 0.5);
  EXPECT_EQ(a.scenes[0].memory, MiB(300));
  EXPECT_FALSE(a.scenes[1].memory);
  EXPECT_TRUE(scenario->tenants[1].cpu_only);
  const sim::Run& run = scenario->runs[0];
  EXPECT_EQ(run.memory, sim::MemoryMode::kElastic);
  EXPECT_EQ(run.memory_params.find("layout")->second, 1);
  EXPECT_EQ(run.memory_params.find("turn_ms")->second, 50);
  EXPECT_EQ(run.memory_max, MiB(512));
  EXPECT_EQ(run.copy_cpus, 0.5);
  EXPECT_EQ(scenario->devices[0].cpus, 8u);
}

TEST(ScenarioFile, WhatOnlyElasticMemoryHasIsOfElasticMemory) {
  const std::string tenant = "name = \"x\"\n[[tenant]]\nname = \"a\"\ngpu_ms = 1\n[[run]]\n";
  const auto fault = [&](const std::string& keys) { return ParseScenario(tenant + keys, "x.toml").error().message; };
  EXPECT_NE(fault("memory_params = { turn_ms = 50 }\n").find("are of memory = \"elastic\""), std::string::npos);
  EXPECT_NE(fault("memory = \"rubber\"\n").find("fixed, elastic, switched"), std::string::npos);
  EXPECT_NE(fault("memory = \"elastic\"\n").find("its device needs a memory_mb"), std::string::npos);
  EXPECT_NE(fault("memory = \"elastic\"\nmemory_params = { layout = \"round\" }\n").find("layout"), std::string::npos);
}

TEST(ScenarioFile, AScenarioNeedsNameTenantRunAndSpan) {
  const auto fault = [](std::string_view text) { return ParseScenario(text, "x.toml").error().message; };
  EXPECT_NE(fault("seconds = 1\n").find("needs a 'name'"), std::string::npos);
  EXPECT_NE(fault("name = \"x\"\n").find("needs a [[tenant]]"), std::string::npos);
  const std::string tenant = "[[tenant]]\nname = \"a\"\n";
  EXPECT_NE(fault("name = \"x\"\n" + tenant + "gpu_ms = 1\n").find("needs a [[run]]"), std::string::npos);
  EXPECT_NE(fault("name = \"x\"\n" + tenant).find("has no scene"), std::string::npos);
  EXPECT_NE(fault("name = \"x\"\nseconds = 0\n" + tenant + "gpu_ms = 1\n[[run]]\n").find("'seconds' must be above 0"),
            std::string::npos);
}

TEST(ScenarioFile, AFileThatIsNotThereIsSaidSo) {
  EXPECT_EQ(LoadScenario("no-such-scenario").error().code, Errc::kNotFound);
  EXPECT_EQ(LoadScenario("./no-such.toml").error().message, "no file ./no-such.toml");
}

TEST(ScenarioFile, WhatComesOfItIsJudgedAndWritten) {
  const Played played = Play(Read(R"([[expect]]
metric = "fps"
run = "none"
tenant = "a"
min = 95
paper = "100"
note = "why"
[[expect]]
metric = "latency_ms"
run = "none"
tenant = "a"
from = 5
min = 1
)"),
                             {});
  const std::vector<Judged> judged = JudgeAll(played);
  ASSERT_EQ(judged.size(), 2u);
  EXPECT_TRUE(judged[0].met);
  EXPECT_FALSE(judged[1].met) << "what can't be reckoned is not met";
  EXPECT_EQ(judged[1].fault, "latency_ms of run 'none': the window 5 … 1 s is empty or not within the run's 1 s");
  const auto told = PlayedJson(played, judged);
  EXPECT_EQ(told["expectations"][0]["note"], "why");
  EXPECT_EQ(told["expectations"][0]["met"], true);
  EXPECT_EQ(SecondsCsv(played.runs[0]).substr(0, 36), "tenant,second,frames,gpu_ms\na,0,100,");
}

}  // namespace
}  // namespace weir::cli
