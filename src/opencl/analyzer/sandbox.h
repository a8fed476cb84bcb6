// SPDX-License-Identifier: Apache-2.0
// What a process that compiles a tenant's source may still do: compute for some seconds, read /usr, write to what it
// holds.
#pragma once

namespace weir::opencl {

/// Whether the kernel has Landlock. Without it what is compiled may read each file that its user may.
bool HasLandlock();

/// Of this process and what it starts, for good: 10 s of CPU, 2 GiB of addresses, 64 descriptors, no core files, no new
/// privileges, no capabilities, and of the kernel's calls only those that a compiler needs: no sockets, no signals to
/// and no memory of other processes, no namespaces, no file opened for writing. Other calls fail with EPERM. Where the
/// kernel has Landlock, no file outside of /usr, /lib and the loader's cache. False where that could not be had: then
/// nothing of a tenant's may be compiled.
bool EnterSandbox();

}  // namespace weir::opencl
