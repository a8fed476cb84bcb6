// SPDX-License-Identifier: Apache-2.0
#include "sim/migration_metrics.h"

#include <algorithm>
#include <limits>

namespace weir::sim {
namespace {

template <typename F>
double OfTask(const Window& w, F figure) {
  if (w.tenant->tasks.empty()) return std::numeric_limits<double>::quiet_NaN();
  return figure(w.tenant->tasks.front());
}

double InSeconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

double PhaseOf(const Window& w, std::int64_t TaskRecord::*phase) {
  return OfTask(w, [phase](const TaskRecord& task) { return InSeconds(task.*phase); });
}

}  // namespace

double TaskTurnaround(const Window& w) {
  return OfTask(w, [](const TaskRecord& task) { return InSeconds(task.end_ns - task.start_ns); });
}
double TaskTransfer(const Window& w) { return PhaseOf(w, &TaskRecord::transfer_ns); }
double TaskInput(const Window& w) { return PhaseOf(w, &TaskRecord::input_ns); }
double TaskKernel(const Window& w) { return PhaseOf(w, &TaskRecord::kernel_ns); }
double TaskOutput(const Window& w) { return PhaseOf(w, &TaskRecord::output_ns); }
double TaskReturn(const Window& w) { return PhaseOf(w, &TaskRecord::return_ns); }
double TaskInOut(const Window& w) { return TaskInput(w) + TaskOutput(w); }
double TaskGpuPart(const Window& w) { return TaskInOut(w) + TaskKernel(w); }
double TaskNetworkMb(const Window& w) {
  return OfTask(w, [](const TaskRecord& task) { return task.network_bytes / (1 << 20); });
}
double TaskKept(const Window& w) {
  return OfTask(w, [](const TaskRecord& task) { return task.kept; });
}
double TaskPieces(const Window& w) {
  return OfTask(w, [](const TaskRecord& task) { return static_cast<double>(task.pieces); });
}
double TaskPlanningPart(const Window& w) {
  return OfTask(w, [](const TaskRecord& task) {
    const auto planning = static_cast<double>(task.asked_ns + task.decided_ns);
    const double added = planning + static_cast<double>(task.network_ns);
    return added > 0 ? planning / added : 0;
  });
}
double TransferSpread(const Window& w) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
  for (const TenantRecord& tenant : w.run->tenants)
    for (const TaskRecord& task : tenant.tasks) {
      least = std::min(least, task.transfer_ns);
      most = std::max(most, task.transfer_ns);
    }
  if (most == 0 || least == 0) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(most) / static_cast<double>(least) - 1;
}

}  // namespace weir::sim
