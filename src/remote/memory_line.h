// SPDX-License-Identifier: Apache-2.0
// A port's line through memory that a virtual machine shares with its host. On the host the memory is a file. In the
// guest it is a PCI device (QEMU's ivshmem) or anything else that can be mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "platform/fd.h"
#include "remote/port_line.h"

namespace weir::remote {

inline constexpr std::uint64_t kGuestMemoryBytes = 4 << 20;  // default size of a new file

/// Opens the host's end. `fd` is open for reading and writing; `path` is for messages. An empty file gets `bytes` bytes
/// (0: kGuestMemoryBytes). A file of zeros is initialised. Errors: kBusy, another process is the host's end;
/// kInvalidArgument, the file has other content or another size; kPermissionDenied, the file is owned by neither this
/// user nor root, or is accessible to other users; kResourceExhausted.
Result<std::unique_ptr<PortLine>> OpenGuestMemory(platform::Fd fd, const std::string& path, std::uint64_t bytes);

/// Whether the descriptor, which is open for reading and writing, can be mapped.
bool CanBeMapped(int fd);
/// Opens the guest's end. Errors: kBusy, another process is the guest's end; kUnavailable, the host has not initialised
/// the memory; kInvalidArgument; kVersionMismatch.
Result<std::unique_ptr<PortLine>> OpenHostMemory(platform::Fd fd, const std::string& path);

}  // namespace weir::remote
