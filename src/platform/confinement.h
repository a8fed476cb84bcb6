// SPDX-License-Identifier: Apache-2.0
// Rights that a process gives up for good before it executes code of a tenant. The program that it executes next does
// not have them either, nor do that program's children.
#pragma once

namespace weir::platform {

/// No new privileges, no capabilities, and a filter that refuses system calls which no driver needs: those that reach
/// into other processes, mount, open namespaces, load code into the kernel, or set the clock. It is a deny list,
/// because it holds for every driver; the list is in confinement.cc. False, with errno: this process is not confined.
bool Confine();

/// Builds the filter of system calls. After this, `Confine` allocates nothing, so that a forked child may call it.
void PrepareConfinement();

}  // namespace weir::platform
