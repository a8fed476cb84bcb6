// SPDX-License-Identifier: Apache-2.0
// Opening a guest's port, and a relay's way to it in the guest: by the one process there that has the port open.
#pragma once

#include <memory>
#include <string>

#include "net/stream.h"
#include "remote/port_line.h"

namespace weir::remote {

/// A node's name that is a path names a port, or the socket of a process that has one open.
inline bool IsPortPath(const std::string& node) { return node.find('/') != std::string::npos; }

/// A character device or memory that the host has too (memory_line.h), for this process alone, or a Unix stream socket;
/// never blocks. A terminal carries bytes as they are from now on. Errors: kBusy, another process has it open;
/// kNotFound, kPermissionDenied; kInvalidArgument, it is none of these; those of OpenHostMemory.
Result<std::unique_ptr<PortLine>> OpenPortPath(const std::string& path);

/// A new stream to the host. `path`: a port, for which `program` (weir-port) is started with a socket in `run_dir`
/// where none has the port open yet; or such a socket.
Result<std::unique_ptr<net::Stream>> ConnectByPort(const std::string& path, const std::string& run_dir,
                                                   const std::string& program);

}  // namespace weir::remote
