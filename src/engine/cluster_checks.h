// SPDX-License-Identifier: Apache-2.0
// Checks of what clients and nodes send to the engine of a cluster manager, before it decides.
#pragma once

#include <string>

#include "base/result.h"
#include "core/placement/load.h"
#include "engine/cluster_events.h"

namespace weir::engine {

/// Whether the text names a blob.
bool IsSha256(const std::string& text);
/// kInvalidArgument says what is wrong with the request, the node or the module.
Status CheckRequest(const RunRequest& request);
Status CheckNode(const ClusterNode& node);
/// The module as it is stored: summaries of kernels are cut.
Result<ClusterModule> CheckedModule(ClusterModule module);
/// A result with values that can be stored, since nodes are not trusted: values out of range become missing, and long
/// texts are cut.
RunResult Sane(RunResult result);
/// The need of a run, with the hash of its work. A run with an input has no hash.
core::RunNeed PlacedNeed(const RunRequest& request);
/// Whether `again` repeats the request `first`. A repeated request may omit the blob, since the name of the module may
/// stand for another blob by now. It may also omit the need, which then came from the module.
bool SameRequest(RunRequest again, const RunRequest& first);

}  // namespace weir::engine
