// SPDX-License-Identifier: Apache-2.0
// Reads a trace from its file.
#pragma once

#include <string>

#include "base/result.h"
#include "proto/trace.h"

namespace weir::cli {

/// Errors name the file and say how to record a trace.
Result<proto::Trace> LoadTrace(const std::string& file);

}  // namespace weir::cli
