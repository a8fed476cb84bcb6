// SPDX-License-Identifier: Apache-2.0
// A trace from its file.
#pragma once

#include <string>

#include "base/result.h"
#include "proto/trace.h"

namespace weir::cli {

/// Its errors name the file and say how a trace is made.
Result<proto::Trace> LoadTrace(const std::string& file);

}  // namespace weir::cli
