// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::daemon {
namespace {

bool EndsWith(const std::string& text, std::string_view end) { return text.ends_with(end); }

NodeFigures OneVgpu() {
  NodeFigures node;
  node.vgpus.resize(1);
  node.vgpus[0].status.name = "a";
  node.vgpus[0].status.device = "gpu0";
  node.devices.resize(1);
  node.devices[0].spec = {.name = "gpu0", .kind = "gpu", .cpus = {}, .model = R"(Vendor "X" \ 1)"};
  node.devices[0].policy = "hybrid";
  return node;
}

std::string LinesOf(const std::string& text, const std::string& beginning) {
  std::string found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    if (text.compare(at, beginning.size(), beginning) == 0) found += text.substr(at, end - at);
    at = end;
  }
  return found;
}

// https://prometheus.io/docs/practices/naming/
TEST(Metrics, NamesFollowTheConventions) {
  std::set<std::string> names;
  for (const MetricEntry& metric : MetricTable()) {
    const std::string name = metric.name, help = metric.help, unit = metric.unit;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(name.starts_with("weir_") || name == "process_start_time_seconds") << name;
    EXPECT_EQ(EndsWith(name, "_total"), metric.type == MetricType::kCounter) << name;
    const std::string bare = EndsWith(name, "_total") ? name.substr(0, name.size() - 6) : name;
    if (unit.empty()) {
      for (const char* end : {"_seconds", "_bytes", "_ratio", "_second"}) EXPECT_FALSE(EndsWith(bare, end)) << name;
    } else {
      EXPECT_TRUE(EndsWith(bare, unit == "per second" ? "_per_second" : "_" + unit)) << name << ": " << unit;
    }
    for (const char* no : {"_ns", "_ms", "_fps", "_slots", "_p99", "_count", "_sum", "_bucket"})
      EXPECT_EQ(name.find(no), std::string::npos) << name;
    EXPECT_FALSE(help.empty() || EndsWith(help, ".") || help.find_first_of("\n\\") != std::string::npos) << help;
    EXPECT_EQ(std::holds_alternative<core::CumulativeCounts (*)(const VgpuReport&)>(metric.read),
              metric.type == MetricType::kHistogram)
        << name;
  }
  EXPECT_GT(names.size(), 60U);
}

TEST(Metrics, AHistogramHasCumulativeBucketsASumAndACount) {
  NodeFigures node = OneVgpu();
  for (const int ms : {4, 17, 17, 19, 2'000}) node.vgpus[0].status.histograms.latency.Add(milliseconds(ms));
  EXPECT_EQ(LinesOf(MetricsText(node), "weir_vgpu_frame_seconds"),
            R"(weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.0025"} 0
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.0055"} 1
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.008"} 1
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.0095"} 1
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.0125"} 1
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.0145"} 1
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.018"} 3
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.021"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.026"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.035"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.051"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.075"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.101"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.25"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="0.5"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="1"} 4
weir_vgpu_frame_seconds_bucket{vgpu="a",device="gpu0",le="+Inf"} 5
weir_vgpu_frame_seconds_sum{vgpu="a",device="gpu0"} 2.057
weir_vgpu_frame_seconds_count{vgpu="a",device="gpu0"} 5
)");
}

TEST(Metrics, EachLineFollowsItsHelpAndItsType) {
  std::string text = MetricsText(OneVgpu()), name;
  std::size_t samples = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# HELP ")) {
      name = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(text.compare(at, 7 + name.size() + 1, "# TYPE " + name + " ") == 0) << line;
    } else if (!line.starts_with("# TYPE ")) {
      ++samples;
      EXPECT_TRUE(line.starts_with(name)) << line;
    }
  }
  EXPECT_GT(samples, MetricTable().size());
}

TEST(Metrics, AVendorsModelCannotEndItsLabel) {
  EXPECT_EQ(LinesOf(MetricsText(OneVgpu()), "weir_device_info"),
            R"(weir_device_info{device="gpu0",policy="hybrid",kind="gpu",model="Vendor \"X\" \\ 1"} 1)"
            "\n");
}

TEST(Metrics, TheCountersOfGpuTimeAreTheHighestCharges) {
  NodeFigures node = OneVgpu();
  node.vgpus[0].status.gpu_total = seconds(1);
  node.vgpus[0].status.gpu_most = FromSeconds(3.312769521);
  node.devices[0].gpu_total = seconds(1);
  node.devices[0].gpu_most = seconds(4);
  const std::string text = MetricsText(node);
  EXPECT_EQ(LinesOf(text, "weir_vgpu_gpu_seconds_total"),
            "weir_vgpu_gpu_seconds_total{vgpu=\"a\",device=\"gpu0\"} 3.312769521\n");
  EXPECT_EQ(LinesOf(text, "weir_device_gpu_seconds_total"), "weir_device_gpu_seconds_total{device=\"gpu0\"} 4\n");
}

TEST(Metrics, EventsAreCountedByKindAndTheStartIsATimeOfDay) {
  NodeFigures node = OneVgpu();
  node.events = {{"broken", 2}, {"sold", 1}};
  node.started_utc_ms = 1'700'000'000'250;
  node.saved = false;
  const std::string text = MetricsText(node);
  EXPECT_EQ(LinesOf(text, "weir_events_total"),
            "weir_events_total{kind=\"broken\"} 2\nweir_events_total{kind=\"sold\"} 1\n");
  EXPECT_EQ(LinesOf(text, "process_start_time_seconds"), "process_start_time_seconds 1700000000.25\n");
  EXPECT_EQ(LinesOf(text, "weir_node_state_saved"), "weir_node_state_saved 0\n");
}

// A setting or a statistic is declared in its Fields(); this finds one that has no metric.
TEST(Metrics, EachNumberAmongTheSettingsHasAMetric) {
  NodeFigures node = OneVgpu();
  engine::VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    using Value = std::remove_cvref_t<decltype(engine::VgpuSettings{}.*member)>;
    if constexpr (!engine::kIsChoice<Value>) {
      const std::string before = MetricsText(node);
      engine::SetSettingNumber(node.vgpus[0].status.settings.*member, info.max / 2);
      EXPECT_NE(MetricsText(node), before) << info.name;
    }
  });
}

TEST(Metrics, EachPublishedStatisticOfExecutorsHasAMetric) {
  NodeFigures node = OneVgpu();
  proto::ExecutorStatistics::Fields([&](const proto::StatisticInfo& info, auto member, auto) {
    if (info.name == nullptr) return;
    const std::string before = MetricsText(node);
    proto::SetNumber(node.vgpus[0].status.memory_sample.stats.*member, 77);
    EXPECT_NE(MetricsText(node), before) << info.name;
  });
}

}  // namespace
}  // namespace weir::daemon
