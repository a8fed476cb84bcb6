// SPDX-License-Identifier: Apache-2.0
// A port's line through memory that a virtual machine shares with its host: on the host a file, in the guest a PCI
// device's (QEMU's ivshmem) or whatever else can be mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "remote/port_line.h"

namespace weir::remote {

inline constexpr std::uint64_t kGuestMemoryBytes = 4 << 20;  // of a file that is made, unless another size is wanted

/// The host's end. A file that isn't there is made, with mode 0600 and `bytes` (0: kGuestMemoryBytes), and one that
/// holds nothing but zeros is set up. Errors: kBusy, another process is this end; kInvalidArgument, the file holds
/// something else or has another size; kPermissionDenied, it isn't this user's, or everybody may open it;
/// kResourceExhausted.
Result<std::unique_ptr<PortLine>> OpenGuestMemory(const std::string& path, std::uint64_t bytes);

/// Whether the descriptor, open for reading and writing, is of something that can be mapped.
bool CanBeMapped(int fd);
/// The guest's end. Errors: kBusy, another process is this end; kUnavailable, the host hasn't set it up;
/// kInvalidArgument, kVersionMismatch.
Result<std::unique_ptr<PortLine>> OpenHostMemory(platform::Fd fd, const std::string& path);

}  // namespace weir::remote
