// SPDX-License-Identifier: Apache-2.0
// Sections of a scenario file about tasks on nodes and about kernels on a cluster.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tools/sim/scenario_file.h"

namespace weir::cli {
namespace {

/// Eleven lines.
constexpr std::string_view kTaskFile = R"(name = "tasks"
[[node]]
name = "here"
memory_mb = 1024
[network]
mb_s = 118
[[task]]
name = "vm"
size = 8000
copies = 2
hold = 5
)";

TEST(ScenarioFile, ReadsTasksOnNodesAndWhatIsDoneWithThem) {
  const auto s = ParseScenario(std::string(kTaskFile) + R"([[run]]
label = "plain"
[[run]]
label = "paper"
partition = "paper"
min_share = 0.1
copies = { vm = 1 }
[[sweep]]
label = "wait"
partition = "wait"
task = "vm"
size = [800, 1600]
)",
                               "x.toml");
  ASSERT_TRUE(s) << s.error().message;
  ASSERT_TRUE(s->migration);
  EXPECT_EQ(s->migration->nodes[0].memory, MiB(1024));
  EXPECT_DOUBLE_EQ(s->migration->network.bytes_per_s, 118e6);
  EXPECT_EQ(s->migration->tasks[0].hold, seconds(5));
  ASSERT_EQ(s->runs.size(), 4u);
  EXPECT_EQ(s->runs[0].migration.shortage, sim::Shortage::kIgnore);
  EXPECT_EQ(s->runs[1].migration.mode, core::PartitionMode::kPaper);
  EXPECT_DOUBLE_EQ(s->runs[1].migration.params.min_share, 0.1);
  EXPECT_EQ(s->runs[1].migration.copies.at("vm"), 1);
  EXPECT_EQ(s->runs[3].label, "wait-1600");
  EXPECT_EQ(s->runs[3].migration.sizes.at("vm"), 1600u);
}

TEST(ScenarioFile, ReadsClocksLossAndPartings) {
  const auto s = ParseScenario(R"(name = "faults"
seconds = 10
[[node]]
name = "one"
memory_mb = 1024
clock_ahead_ms = 1500
clock_ppm = -20
[[node]]
name = "two"
memory_mb = 1024
[network]
jitter_us = 300
loss = 0.25
[[parting]]
a = 1
b = 0
at = 2
until = 3.5
[[task]]
name = "vm"
size = 800
[[run]]
label = "auto"
partition = "auto"
)",
                               "x.toml");
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->migration->nodes[0].clock_ahead, milliseconds(1500));
  EXPECT_EQ(s->migration->nodes[0].clock_ppm, -20);
  EXPECT_EQ(s->migration->nodes[1].clock_ppm, 0);
  EXPECT_EQ(s->migration->network.jitter, microseconds(300));
  EXPECT_DOUBLE_EQ(s->migration->network.loss, 0.25);
  ASSERT_EQ(s->migration->partings.size(), 1u);
  EXPECT_EQ(s->migration->partings[0].a, 1u);
  EXPECT_EQ(s->migration->partings[0].until, milliseconds(3500));
}

TEST(ScenarioFile, RefusesTasksThatCannotBe) {
  const auto fault = [](const std::string& more) {
    const auto scenario = ParseScenario(std::string(kTaskFile) + more, "x.toml");
    return scenario ? "" : scenario.error().message;
  };
  EXPECT_EQ(fault("[[run]]\nlabel = \"a\"\npartition = \"half\"\n"),
            "x.toml:12: unknown way of partitioning 'half'; known: auto, never, always, paper, and without the "
            "planner: none, wait, migrate");
  EXPECT_EQ(fault("[[run]]\nlabel = \"a\"\nsizes = { other = 8 }\n"), "x.toml:14: no task 'other'");
  EXPECT_EQ(fault("[[sweep]]\nlabel = \"a\"\ntask = \"vm\"\nsize = [9]\n"),
            "x.toml:12: a size is a multiple of 8 up to 100000, not 9");
  EXPECT_EQ(fault("[[tenant]]\nname = \"a\"\ngpu_ms = 1\n[[run]]\nlabel = \"a\"\n"),
            "x.toml:1: a scenario has tenants, tasks or kernels, and only one of these");
  const std::string two = "[[node]]\nname = \"b\"\nmemory_mb = 1\n[[run]]\nlabel = \"a\"\n";
  EXPECT_EQ(fault(two + "[[parting]]\na = 1\nuntil = 1\n"), "x.toml:17: a parting needs two nodes, a and b");
  EXPECT_EQ(fault(two + "[[parting]]\nat = 1\nuntil = 1\n"), "x.toml:17: a parting ends after it begins: until > at");
}

constexpr std::string_view kClusterFile = R"(name = "cluster"
seconds = 10

[cluster]
devices = 2
processors = 14
threads = 21504
blocks = 112
global_gb_s = 144
context_s = 0.5

[[kernel]]
name = "a"
local_kb = 3.9
thread_ns = 100

[[kernel]]
name = "b"
kernel_s = 0.25
processing = 0.5
global_gb_s = 30

)";

TEST(ScenarioFile, ReadsKernelsOnACluster) {
  const auto s = ParseScenario(std::string(kClusterFile) + R"([[run]]
label = "in-turn"
placement = "interference-aware"
placement_params = { prior_weight = 0.5 }
context = "each"
kernels = ["b"]
learns = true

[[sweep]]
label = "many"
placement = "spread"
runs = [8, 12]
)",
                               "x.toml");
  ASSERT_TRUE(s) << s.error().message;
  ASSERT_TRUE(s->cluster);
  EXPECT_EQ(s->cluster->devices.context, milliseconds(500));
  EXPECT_EQ(s->cluster->kernels[0].local, Bytes{3'993});
  EXPECT_LT(s->cluster->kernels[0].processing, 0);
  EXPECT_DOUBLE_EQ(s->cluster->kernels[1].bytes_per_s, 30e9);
  ASSERT_EQ(s->runs.size(), 3u);
  EXPECT_TRUE(s->runs[0].cluster.context_each);
  EXPECT_TRUE(s->runs[0].cluster.learns);
  EXPECT_EQ(s->runs[0].cluster.runs, 1u);
  EXPECT_EQ(s->runs[0].cluster.params.at("prior_weight"), 0.5);
  EXPECT_EQ(s->runs[2].label, "many-12");
  EXPECT_EQ(s->runs[2].cluster.runs, 12u);
}

TEST(ScenarioFile, ReadsPairsThatWereMeasured) {
  const std::string file = R"(name = "measured"
seconds = 10
[cluster]
threads = 1024
blocks = 8
global_gb_s = 10
[[kernel]]
name = "a"
kernel_s = 0.5
loads = { local_memory = 4, traffic = 250, threads = 1024, blocks = 8 }
[[kernel]]
name = "b"
kernel_s = 0.25
[[run]]
label = "x"
)";
  const auto read = [&](const std::string& pairs) { return ParseScenario(file + pairs, "x.toml"); };
  const auto pair = [](const std::string& a, const std::string& b, const std::string& times) {
    return "[[pair]]\nfirst = \"" + a + "\"\nsecond = \"" + b + "\"\n" + times;
  };
  const std::string times = "first_s = 1\nsecond_s = 0.75\n", same = pair("a", "a", times), ab = pair("b", "a", times);
  const auto s = read(same + ab + pair("b", "b", times));
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(s->cluster->kernels[0].loads, (core::Loads{4, 250, 1024, 8}));
  EXPECT_FALSE(s->cluster->kernels[1].loads);
  ASSERT_EQ(s->cluster->pairs.size(), 3u);
  EXPECT_EQ(s->cluster->pairs[1].first, 1u);
  EXPECT_EQ(s->cluster->pairs[1].second_s, 0.75);
  EXPECT_EQ(read(same).error().message, "x.toml:1: there are 3 pairs of 2 kernels, each with itself too; 1 are given");
  EXPECT_EQ(read(same + ab + pair("a", "b", times)).error().message, "x.toml:26: these two kernels are a pair already");
  EXPECT_EQ(read(pair("a", "c", times)).error().message, "x.toml:16: 'second': no kernel 'c'");
  EXPECT_EQ(read(pair("a", "b", "first_s = 1\n")).error().message,
            "x.toml:16: a pair needs first_s and second_s, what each one took");
}

TEST(ScenarioFile, RefusesKernelsThatCannotBe) {
  const auto fault = [](const std::string& more) {
    const auto scenario = ParseScenario(std::string(kClusterFile) + more, "x.toml");
    return scenario ? "" : scenario.error().message;
  };
  EXPECT_EQ(fault("[[run]]\nlabel = \"x\"\nplacement = \"best\"\n"),
            "x.toml:23: unknown placement 'best'; known: interference-aware, serial, round-robin, binpack, spread");
  EXPECT_EQ(fault("[[run]]\nlabel = \"x\"\nkernels = [\"c\"]\n"), "x.toml:23: no kernel 'c'");
  EXPECT_EQ(fault("[[run]]\nlabel = \"x\"\nruns = [1]\n"), "x.toml:25: unknown key 'runs'");
  EXPECT_EQ(fault("[[sweep]]\nlabel = \"x\"\n"),
            "x.toml:23: a sweep of kernels needs one list of numbers: runs, blocks, threads or shuffle");
  EXPECT_EQ(fault("[[kernel]]\nname = \"a\"\nkernel_s = 1\n[[run]]\nlabel = \"x\"\n"),
            "x.toml:23: two kernels are called 'a'");
  EXPECT_EQ(fault("[[kernel]]\nname = \"c\"\n[[run]]\nlabel = \"x\"\n"),
            "x.toml:23: kernel 'c' needs a kernel_s or a thread_ns");
}

}  // namespace
}  // namespace weir::cli
