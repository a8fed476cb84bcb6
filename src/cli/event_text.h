// SPDX-License-Identifier: Apache-2.0
// An event of the node as a line of text.
#pragma once

#include <string>

#include "cli/common/views.h"

namespace weir::cli {

/// "2026-06-05 14:03:05.123  refused     game            a cap of …\n", in local time.
std::string EventLine(const EventView& event, bool color);

}  // namespace weir::cli
