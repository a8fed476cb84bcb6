// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster_metrics.h"

#include <algorithm>
#include <limits>

namespace weir::sim {
namespace {

constexpr double kNothingDone = std::numeric_limits<double>::quiet_NaN();

/// Mean over the runs of the window's tenant.
template <typename F>
double MeanOfRuns(const Window& w, F figure) {
  double sum = 0;
  for (const KernelRunRecord& run : w.tenant->kernel_runs) sum += figure(run);
  return w.tenant->kernel_runs.empty() ? kNothingDone : sum / static_cast<double>(w.tenant->kernel_runs.size());
}

double BusySeconds(const Window& w) {
  std::int64_t busy_ns = 0;
  for (const std::int64_t one : w.run->device_busy_ns) busy_ns += one;
  return static_cast<double>(busy_ns) * 1e-9;
}

}  // namespace

double Makespan(const Window& w) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
  for (const TenantRecord& tenant : w.run->tenants)
    for (const KernelRunRecord& run : tenant.kernel_runs) {
      first = std::min(first, run.submitted_ns);
      last = std::max(last, run.end_ns);
    }
  return last < 0 ? kNothingDone : static_cast<double>(last - first) * 1e-9;
}

double KernelBusy(const Window& w) {
  return BusySeconds(w) / (Makespan(w) * static_cast<double>(w.run->device_busy_ns.size()));
}

double Processing(const Window& w) {
  const double busy_s = BusySeconds(w);
  return busy_s > 0 ? w.run->processing_s / busy_s : kNothingDone;
}

double KernelSlowdown(const Window& w) {
  return MeanOfRuns(w, [](const KernelRunRecord& run) {
    return static_cast<double>(run.kernel_ns) / static_cast<double>(run.alone_ns);
  });
}

double KernelMeanTime(const Window& w) {
  return MeanOfRuns(w, [](const KernelRunRecord& run) { return static_cast<double>(run.kernel_ns) * 1e-9; });
}

double RunsDone(const Window& w) {
  std::size_t done = 0;
  for (const TenantRecord& tenant : w.run->tenants) done += tenant.kernel_runs.size();
  return static_cast<double>(done);
}

double DevicesUsed(const Window& w) {
  return static_cast<double>(std::ranges::count_if(w.run->device_busy_ns, [](std::int64_t ns) { return ns > 0; }));
}

}  // namespace weir::sim
