// SPDX-License-Identifier: Apache-2.0
// The results of a cluster scenario's kernels, with a row for each kernel in each run.
#include <fmt/format.h>

#include "cli/common/table.h"
#include "cli/common/text_units.h"
#include "sim/cluster_metrics.h"
#include "tools/sim/play.h"

namespace weir::cli {

std::string KernelTable(const Played& played, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"RUN"},
               {"MAKESPAN s", kRight},
               {"BUSY", kRight},
               {"KERNEL"},
               {"RUNS", kRight},
               {"KERNEL s", kRight},
               {"SLOWDOWN", kRight},
               {"WAITED s", kRight}});
  for (const sim::RunRecord& run : played.runs) {
    if (&run != &played.runs.front()) table.AddGap();
    bool first = true;
    for (const sim::TenantRecord& kernel : run.tenants) {
      if (kernel.kernel_runs.empty()) continue;
      const sim::Window window{.run = &run, .tenant = &kernel};
      double waited_s = 0;
      for (const sim::KernelRunRecord& one : kernel.kernel_runs)
        waited_s += static_cast<double>(one.started_ns - one.submitted_ns) * 1e-9;
      table.Add({{first ? run.label : "", Style::kStrong},
                 {first ? fmt::format("{:.3f}", sim::Makespan(window)) : ""},
                 {first ? FormatPercent(sim::KernelBusy(window)) : ""},
                 {kernel.name},
                 {fmt::format("{}", kernel.kernel_runs.size())},
                 {fmt::format("{:.4g}", sim::KernelMeanTime(window))},
                 {fmt::format("{:.2f}", sim::KernelSlowdown(window))},
                 {fmt::format("{:.3f}", waited_s / static_cast<double>(kernel.kernel_runs.size()))}});
      first = false;
    }
  }
  return table.Render(color);
}

}  // namespace weir::cli
