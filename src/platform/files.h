// SPDX-License-Identifier: Apache-2.0
// Files that are replaced atomically, and folders that must belong to this user.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::platform {

/// Writes a neighbouring file, syncs it and renames it: readers see the old content or the new, never a mixture, also
/// after a crash. kResourceExhausted: the disk is full; the old file stays. platform/file_calls.h has a version for
/// tests.
Status WriteFileAtomically(const std::string& path, std::string_view content);

/// Like WriteFileAtomically, but readable for every user (mode 0644) and without a sync, for content that is useless
/// after a crash of the machine.
Status ReplaceFile(const std::string& path, std::string_view content);

/// kResourceExhausted: longer than `bytes_max`.
Result<std::string> ReadFile(const std::string& path, std::size_t bytes_max);

/// Whether an existing folder can be trusted, as MakeFolder checks it. kNotFound: it does not exist.
Status CheckFolder(const std::string& path, unsigned mode = 0755);
/// Makes the folder and its parents (mode 0755 & ~umask unless given). An existing folder, or a link to one, must
/// belong to this user or root. Other users must not be able to write to the folder, unless `mode` allows it or the
/// folder has the sticky bit. With a mode that gives the group and others nothing (0700), neither must the folder's
/// group.
Status MakeFolder(const std::string& path, unsigned mode = 0755);

/// The default folder of the daemon's sockets: $WEIR_RUN_DIR, /run/weir for root, $XDG_RUNTIME_DIR/weir, or
/// /tmp/weir-UID.
std::string DefaultRunDir();
/// The default folder of saved state: $WEIR_STATE_DIR, /var/lib/weir for root, $XDG_STATE_HOME/weir, or
/// ~/.local/state/weir.
std::string DefaultStateDir();

}  // namespace weir::platform
