// SPDX-License-Identifier: Apache-2.0
// Opens a guest's port, and connects a relay in the guest to the process that has the port open.
#pragma once

#include <memory>
#include <string>

#include "net/stream.h"
#include "platform/fd.h"
#include "remote/port_line.h"

namespace weir::remote {

/// A node name that contains a slash is the path of a port, or the socket of a process that has a port open.
inline bool IsPortPath(const std::string& node) { return node.find('/') != std::string::npos; }

/// Opens a character device, memory shared with the host (memory_line.h) or a Unix stream socket, exclusively and
/// without blocking. A terminal is put into raw mode. Errors: kBusy, another process has it open; kNotFound;
/// kPermissionDenied; kInvalidArgument, the path is none of these; those of OpenHostMemory.
Result<std::unique_ptr<PortLine>> OpenPortPath(const std::string& path);
/// The same for a result of platform::OpenOffered. `path` is for messages.
Result<std::unique_ptr<PortLine>> OpenPortOn(Result<platform::Fd> opened, const std::string& path);

/// Opens a new stream to the host. `path` is a port or the socket of a process that has one open. For a port that no
/// process has open, this starts `program` (weir-port), whose socket lies in `run_dir`.
Result<std::unique_ptr<net::Stream>> ConnectByPort(const std::string& path, const std::string& run_dir,
                                                   const std::string& program);

}  // namespace weir::remote
