// SPDX-License-Identifier: Apache-2.0
// Figures of cluster scenarios, for the table in metrics.cc. A tenant is a kernel here. NaN where no run is done.
#pragma once

#include "sim/metrics.h"

namespace weir::sim {

double Makespan(const Window& w);        // s, from the first submission to the end of the last run
double KernelBusy(const Window& w);      // part of all devices' time in the makespan in which a kernel was running
double Processing(const Window& w);      // mean part of a device's threads that were busy while a kernel was running
double KernelSlowdown(const Window& w);  // kernel time over its time alone: mean over the tenant's runs
double KernelMeanTime(const Window& w);  // s, mean kernel time over the tenant's runs
double RunsDone(const Window& w);
double DevicesUsed(const Window& w);  // how many devices ran at least one kernel

}  // namespace weir::sim
