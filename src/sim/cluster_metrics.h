// SPDX-License-Identifier: Apache-2.0
// Figures of cluster scenarios, for the table in metrics.cc. A tenant is a kernel there. NaN where nothing is done.
#pragma once

#include "sim/metrics.h"

namespace weir::sim {

double Makespan(const Window& w);        // s, from the first submission until the last run is done
double KernelBusy(const Window& w);      // of all devices' time until then: a kernel was running
double Processing(const Window& w);      // of the time in which one was running: threads that were busy
double KernelSlowdown(const Window& w);  // mean over the tenant's runs: of the kernel, over its time alone
double KernelMeanTime(const Window& w);  // s, likewise: of the kernel
double RunsDone(const Window& w);
double DevicesUsed(const Window& w);  // that ran anything

}  // namespace weir::sim
