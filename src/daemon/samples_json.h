// SPDX-License-Identifier: Apache-2.0
// `GET /v1/samples`: what changes all the time on a node, as rows of numbers (docs/protocol/control-api.md).
#pragma once

#include <string>

#include "daemon/node.h"

namespace weir::daemon {

/// Writes the text itself: a reader asks several times a second, and a tree of JSON values for each vGPU would cost
/// more than the figures.
std::string SamplesJson(const NodeSamples& samples);

}  // namespace weir::daemon
