// SPDX-License-Identifier: Apache-2.0
// The saved node's file. The previous content is kept as PATH.previous.
#pragma once

#include <string>

#include "daemon/saved_node.h"
#include "platform/file_calls.h"

namespace weir::daemon {

/// Returns an empty node if the file does not exist. An error names the file and says how to recover. The daemon must
/// not start then, because its first save would overwrite what is left of the state.
Result<SavedNode> LoadState(platform::FileCalls& calls, const std::string& path);

/// See ReplaceDurably.
Status WriteState(platform::FileCalls& calls, const std::string& path, const SavedNode& state);

}  // namespace weir::daemon
