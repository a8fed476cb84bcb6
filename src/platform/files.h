// SPDX-License-Identifier: Apache-2.0
// Files that are replaced atomically, and folders that must belong to this user.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::platform {

/// Writes a neighbouring file, syncs it and renames it: readers see the old content or the new, never a mixture, also
/// after a crash or on a full disk (kResourceExhausted; the old file stays). platform/file_calls.h has a version for
/// tests.
Status WriteFileAtomically(const std::string& path, std::string_view content);

/// Like WriteFileAtomically, but readable for every user (mode 0644) and without a sync, for content that is useless
/// after a crash of the machine.
Status ReplaceFile(const std::string& path, std::string_view content);

/// kResourceExhausted: longer than `bytes_max`.
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);

/// Makes the folder and its parents (mode 0755 & ~umask unless given). An existing folder must belong to this user or
/// root. Others must not be able to write to it, nor its group if `mode` gives the group nothing, unless it has the
/// sticky bit. A link to a folder must belong to this user or root.
Status MakeFolder(const std::string& path, unsigned mode = 0755);

/// The default folder of the daemon's sockets: $WEIR_RUN_DIR, /run/weir for root, $XDG_RUNTIME_DIR/weir, or
/// /tmp/weir-UID.
std::string DefaultRunDir();
/// The default folder of saved state: $WEIR_STATE_DIR, /var/lib/weir for root, $XDG_STATE_HOME/weir, or
/// ~/.local/state/weir.
std::string DefaultStateDir();

}  // namespace weir::platform
