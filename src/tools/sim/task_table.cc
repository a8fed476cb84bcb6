// SPDX-License-Identifier: Apache-2.0
// The results of a migration scenario's tasks, with a row for each task.
#include <fmt/format.h>

#include "cli/common/table.h"
#include "cli/common/text_units.h"
#include "tools/sim/play.h"

namespace weir::cli {

std::string TaskTable(const Played& played, bool color) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"RUN"},
               {"TASK"},
               {"WHERE"},
               {"HERE", kRight},
               {"TURNAROUND s", kRight},
               {"FROM CLIENT", kRight},
               {"IN", kRight},
               {"KERNEL", kRight},
               {"OUT", kRight},
               {"TO CLIENT", kRight},
               {"NETWORK", kRight}});
  const auto spent = [](std::int64_t ns) { return Cell{fmt::format("{:.3f}", static_cast<double>(ns) * 1e-9)}; };
  for (const sim::RunRecord& run : played.runs) {
    if (&run != &played.runs.front()) table.AddGap();
    bool first = true;
    for (const sim::TenantRecord& tenant : run.tenants)
      for (const sim::TaskRecord& task : tenant.tasks) {
        table.Add({{first ? run.label : "", Style::kStrong},
                   {tenant.name},
                   {std::string(core::NameOf(task.kind))},
                   {FormatPercent(task.kept)},
                   spent(task.end_ns - task.start_ns),
                   spent(task.transfer_ns),
                   spent(task.input_ns),
                   spent(task.kernel_ns),
                   spent(task.output_ns),
                   spent(task.return_ns),
                   spent(task.network_ns)});
        first = false;
      }
  }
  return table.Render(color);
}

}  // namespace weir::cli
