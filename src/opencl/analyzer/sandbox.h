// SPDX-License-Identifier: Apache-2.0
// What a process that compiles a tenant's source may still do: compute for some seconds, read /usr, write to what it
// holds.
#pragma once

namespace weir::opencl {

/// Of this process and what it starts, for good: 10 s of CPU, 2 GiB of addresses, no core files, no new privileges, no
/// sockets, and, where the kernel has Landlock, no file outside of /usr, /lib and the loader's cache, none to write.
/// False where that could not be had, but for Landlock: then nothing of a tenant's may be compiled.
bool EnterSandbox();

}  // namespace weir::opencl
