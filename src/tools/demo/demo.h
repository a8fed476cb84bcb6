// SPDX-License-Identifier: Apache-2.0
// weir demo: three unmodified programs share a device, under one policy after another.
#pragma once

#include "base/result.h"
#include "tools/demo/plan.h"

namespace weir::cli {

/// Returns the exit code: 0 only if every program ran to the end and showed frames under each policy.
Result<int> RunDemo(const DemoOptions& options);

}  // namespace weir::cli
