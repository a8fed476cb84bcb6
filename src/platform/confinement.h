// SPDX-License-Identifier: Apache-2.0
// Rights that a process gives up for good before it executes code of a tenant. The program that it executes next, and
// all of its children, have them neither.
#pragma once

namespace weir::platform {

/// No new privileges, no capabilities, and a filter that refuses system calls which no driver needs: those that reach
/// into other processes, mount, open namespaces, load code into the kernel, or set the clock. It is a deny list,
/// because it holds for every driver; the list is in confinement.cc. False, with errno: this process is not confined.
bool Confine();

/// Builds the filter. `Confine` allocates nothing after it, so that it may follow a fork.
void PrepareConfinement();

}  // namespace weir::platform
