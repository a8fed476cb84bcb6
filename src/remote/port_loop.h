// SPDX-License-Identifier: Apache-2.0
// Runs one end of a guest's port: carries streams between the port and one socket of this machine for each stream. In
// the guest a connection to `listener` begins a stream; on the host each new stream is handed to `opened` as a socket.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "platform/fd.h"
#include "proto/port_frames.h"
#include "remote/port_line.h"

namespace weir::remote {

struct PortLoopOptions {
  proto::port::Side side = proto::port::Side::kGuest;
  std::string name = {};  // of the port, for messages
  /// Opens the port when it is closed. Called five times a second, or, if `knock` is set, when `knock` is readable.
  /// Errors other than kTimeout are printed.
  std::function<Result<std::unique_ptr<PortLine>>()> open = {};
  /// Readable: a peer connects to this machine's end. Only one peer is served; others are refused.
  int knock = -1;
  std::function<void()> close_knock = {};  // closes `knock` on the way to the end (`leave`)

  /// In the guest: the socket on which programs request a stream. `accept` never blocks and returns an empty descriptor
  /// when no connection is pending.
  int listener = -1;
  std::function<Result<platform::Fd>()> accept = {};
  /// On the host: called for each new stream with the socket of this end.
  std::function<void(platform::Fd)> opened = {};

  int stop = -1;   // readable: end
  int leave = -1;  // readable: accept no new streams, do not reopen the port, and close `knock`
  /// Ends when there has been no stream for this long; zero: never.
  Duration idle_max{};
  bool quiet = false;
};
/// Runs until `stop` is readable or the idle time has passed, then closes the port and all streams.
Status RunPort(PortLoopOptions options);

}  // namespace weir::remote
