// SPDX-License-Identifier: Apache-2.0
// What the cluster manager's engine accepts of clients and nodes, before a decision is made.
#pragma once

#include <string>

#include "base/result.h"
#include "core/placement/load.h"
#include "engine/cluster_events.h"

namespace weir::engine {

/// Whether the text names a blob.
bool IsSha256(const std::string& text);
/// kInvalidArgument says what is wrong.
Status CheckRequest(const RunRequest& request);
Status CheckNode(const ClusterNode& node);
/// The result of a node, which is not trusted: values out of range are treated as missing, long texts are cut.
RunResult Sane(RunResult result);
/// The need of a run, with the hash of its work, if that is known.
core::RunNeed PlacedNeed(const RunRequest& request);
/// A repeated request may omit the blob, since the module's name may stand for another blob by now, and the need, which
/// then comes from the module.
bool SameRequest(RunRequest again, const RunRequest& first);

}  // namespace weir::engine
