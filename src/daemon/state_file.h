// SPDX-License-Identifier: Apache-2.0
// The saved node as a file. The content before the last change is kept beside it, as PATH.previous.
#pragma once

#include <string>

#include "daemon/saved_node.h"
#include "platform/file_calls.h"

namespace weir::daemon {

/// An empty node where there is no file. An error names the file and says how to recover: the daemon must not start
/// then, because its first save would replace what is left of the state.
Result<SavedNode> LoadState(platform::FileCalls& calls, const std::string& path);

/// See ReplaceDurably.
Status WriteState(platform::FileCalls& calls, const std::string& path, const SavedNode& state);

}  // namespace weir::daemon
