// SPDX-License-Identifier: Apache-2.0
// Rights that a process gives up for good before it executes code of a tenant. The program that it executes next does
// not have them either, nor do that program's children.
#pragma once

namespace weir::platform {

struct Confinement {
  /// The only folder in which files may be made, changed or removed, if the kernel has Landlock; device files and those
  /// of /proc may be written. Abstract Unix sockets of others are then out of reach, too, where the kernel can do that.
  /// Null: what the user may do. Empty: only /dev/null is written.
  const char* writes_below = nullptr;
  bool network = false;  // sockets of the internet are allowed
};

/// No new privileges, no capabilities, and a filter that refuses system calls which no driver needs: those that reach
/// into other processes or the network, mount, open namespaces, load code into the kernel, or set the clock. It is a
/// deny list, because it holds for every driver; the list is in confinement.cc. False, with errno: this process is not
/// confined.
bool Confine(const Confinement& confinement = {});

/// Builds the filter of system calls. After this, `Confine` without `network` allocates nothing, so that a forked child
/// may call it.
void PrepareConfinement();

}  // namespace weir::platform
