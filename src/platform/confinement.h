// SPDX-License-Identifier: Apache-2.0
// Rights that a process gives up for good before it executes code of a tenant. The program that it executes next does
// not have them either, nor do that program's children.
#pragma once

namespace weir::platform {

/// No new privileges, no capabilities, and a filter that refuses system calls which no driver needs: those that reach
/// into other processes or the network, mount, open namespaces, load code into the kernel, or set the clock. It is a
/// deny list, because it holds for every driver; the list is in confinement.cc. `writes_below`: the only folder in
/// which files may be made, changed or removed, if the kernel has Landlock; device files and those of /proc may be
/// written. Abstract Unix sockets of others are then out of reach, too, where the kernel can do that. Null: what the
/// user may do. Empty: only /dev/null is written. False, with errno: this process is not confined.
bool Confine(const char* writes_below = nullptr);

/// Builds the filter of system calls. After this, `Confine` allocates nothing, so that a forked child may call it.
void PrepareConfinement();

}  // namespace weir::platform
