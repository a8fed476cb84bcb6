// SPDX-License-Identifier: Apache-2.0
// Figures of a tenant's task in migration scenarios, for the table in metrics.cc. NaN where the task is not done.
// "Here" is the client's node.
#pragma once

#include "sim/metrics.h"

namespace weir::sim {

double TaskTurnaround(const Window& w);  // s, from the task's start until the client has its outputs
double TaskTransfer(const Window& w);    // s, client to here
double TaskInput(const Window& w);       // s, host to device
double TaskKernel(const Window& w);      // s
double TaskOutput(const Window& w);      // s, device to host
double TaskReturn(const Window& w);      // s, here to client
double TaskInOut(const Window& w);       // s, input and output
double TaskGpuPart(const Window& w);     // s, input, kernel and output
double TaskNetworkMb(const Window& w);   // MiB between nodes, both ways
double TaskKept(const Window& w);        // part of the groups that ran here
double TaskPieces(const Window& w);      // in which they ran
double TaskPlanningPart(
    const Window& w);  // time of asking and deciding over all time that migration added: these two and the network
double TransferSpread(const Window& w);  // of all tasks: the longest transfer over the shortest, minus 1

}  // namespace weir::sim
