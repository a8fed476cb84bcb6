// SPDX-License-Identifier: Apache-2.0
// Files that must not be half written, and folders that must be ours.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::platform {

/// Writes to a neighbour, syncs and renames: readers see the old content or the new, never a mixture, also after a
/// crash or on a full disk (the old file stays, kResourceExhausted). platform/file_calls.h has the same for tests.
Status WriteFileAtomically(const std::string& path, std::string_view content);

/// The same, for everybody to read (mode 0644), of what is worth nothing after a crash of the machine: nothing is
/// synced, so it takes no time.
Status ReplaceFile(const std::string& path, std::string_view content);

/// kResourceExhausted beyond `bytes_max`.
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);

/// Makes the folder and its parents (mode 0755 & ~umask unless given). An existing one must be a folder that belongs to
/// this user or root and that others can't write, nor its group where `mode` gives the group nothing; the sticky bit
/// makes up for that. A link to one must be this user's or root's.
Status MakeFolder(const std::string& path, unsigned mode = 0755);

/// Where the daemon's sockets are when nothing else is said: $WEIR_RUN_DIR, /run/weir for root, $XDG_RUNTIME_DIR/weir,
/// else /tmp/weir-UID.
std::string DefaultRunDir();
/// $WEIR_STATE_DIR, /var/lib/weir for root, $XDG_STATE_HOME/weir, else ~/.local/state/weir.
std::string DefaultStateDir();

}  // namespace weir::platform
