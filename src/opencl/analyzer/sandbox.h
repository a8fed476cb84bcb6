// SPDX-License-Identifier: Apache-2.0
// Restricts a process that compiles a tenant's source: it may compute for some seconds, read /usr, and write to its
// open descriptors.
#pragma once

namespace weir::opencl {

/// Whether the kernel supports Landlock. Without it, compiled source may include any file that the user may read.
bool HasLandlock();

/// Restricts this process and its children permanently: 10 s of CPU time, 2 GiB of address space, files of 64 MiB, 64
/// descriptors, no core files, no new privileges, no capabilities. Only the system calls that a compiler needs are
/// allowed: no sockets, no signals to other processes, no access to their memory, no namespaces, no file opened for
/// writing. Other system calls fail with EPERM. With Landlock, no file outside /usr, /lib and the loader's cache can be
/// opened. False: a restriction could not be set, and no tenant's source may be compiled.
bool EnterSandbox();

}  // namespace weir::opencl
