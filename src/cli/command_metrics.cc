// SPDX-License-Identifier: Apache-2.0
// weir metrics: the daemon's figures for Prometheus, and what each of them means.
#include <fmt/format.h>

#include <memory>

#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/options.h"
#include "daemon/metrics.h"

namespace weir::cli {
namespace {

struct MetricsFlags {
  bool list = false;
};

void ListMetrics(const Session& session) {
  if (session.json) {
    nlohmann::json out{{"metrics", nlohmann::json::array()}};
    for (const daemon::MetricEntry& metric : daemon::MetricTable()) {
      nlohmann::json& entry = out["metrics"].emplace_back();
      entry = {{"name", metric.name},
               {"type", daemon::NameOf(metric.type)},
               {"unit", metric.unit},
               {"labels", daemon::LabelsOf(metric)},
               {"help", metric.help}};
      if (metric.type == daemon::MetricType::kHistogram) entry["buckets"] = daemon::BucketsOf(metric);
    }
    return PrintJson(out);
  }
  Table table({{"NAME"}, {"TYPE"}, {"MEANING"}});
  for (const daemon::MetricEntry& metric : daemon::MetricTable())
    table.Add({{metric.name}, {daemon::NameOf(metric.type), Style::kFaint}, {metric.help}});
  fmt::print("{}", table.Render(StdoutTakesColor()));
}

Result<int> Metrics(const Session& session, const MetricsFlags& flags) {
  if (flags.list) return ListMetrics(session), 0;
  WEIR_TRY(const std::string text, session.client().GetText("/metrics"));
  fmt::print("{}", text);
  return 0;
}

}  // namespace

void AddMetrics(Command app, Session& session) {
  auto flags = std::make_shared<MetricsFlags>();
  const Command command = AddCommand(
      app, "metrics", "Print the daemon's metrics as Prometheus reads them",
      "  weir metrics                               # of the daemon that runs\n"
      "  weir metrics | grep '^weir_vgpu_frames_total'\n"
      "  weir metrics --list                        # what each metric means; needs no daemon\n"
      "\n"
      "docs/how-to/metrics-and-alerts.md has alert rules and a dashboard; docs/reference/metrics.md is the list.\n",
      session);
  command.AddFlag("--list", flags->list,
                  "List all metrics with their meaning; with --json also their units and labels");
  command.WhenGiven([flags, &session] {
    if (session.json && !flags->list) RejectUsage("metrics: --json needs --list; the metrics themselves are text");
    session.action = [flags, &session] { return Metrics(session, *flags); };
  });
}

}  // namespace weir::cli
