// SPDX-License-Identifier: Apache-2.0
// Figures of a tenant's task in migration scenarios, for the table in metrics.cc. NaN where it is not done.
#pragma once

#include "sim/metrics.h"

namespace weir::sim {

double TaskTurnaround(const Window& w);  // s, from its start until its client has its outputs
double TaskTransfer(const Window& w);    // s, client to here
double TaskInput(const Window& w);       // s, host to device
double TaskKernel(const Window& w);      // s
double TaskOutput(const Window& w);      // s, device to host
double TaskReturn(const Window& w);      // s, here to client
double TaskInOut(const Window& w);       // s, both copies
double TaskGpuPart(const Window& w);     // s, copies and kernel
double TaskNetworkMb(const Window& w);   // MiB between nodes, both ways
double TaskKept(const Window& w);        // part of the groups that ran here
double TaskPieces(const Window& w);      // here
double TaskPlanningPart(
    const Window& w);  // of the time that was added: asking and deciding against these and the network
double TransferSpread(const Window& w);  // of all tasks: longest transfer over the shortest, less 1

}  // namespace weir::sim
