// SPDX-License-Identifier: Apache-2.0
// One end of a guest's port at run time: carries streams between the port and sockets of this machine, one for each. In
// the guest somebody connects here and a stream begins; at the host a stream begins and somebody is given its socket.
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
  std::string name = {};  // of the port, for people
  /// The port, when there is none: asked 5 times a second, or, with `knock`, when that is readable. Anything but
  /// kTimeout is said.
  std::function<Result<std::unique_ptr<PortLine>>()> open = {};
  /// Readable: somebody connects to this machine's end. One at a time: further ones are turned away.
  int knock = -1;
  std::function<void()> close_knock = {};

  /// In the guest: where who wants a stream connects. Never blocks; an empty descriptor: nobody.
  int listener = -1;
  std::function<Result<platform::Fd>()> accept = {};
  /// At the host: a stream has begun, and this is its end.
  std::function<void(platform::Fd)> opened = {};

  int stop = -1;   // readable: end
  int leave = -1;  // readable: no new streams from now on; nor is the port opened again, and `knock` is closed
  /// Ends when there has been no stream for so long; zero: never.
  Duration idle_max{};
  bool quiet = false;
};
/// Until `stop` or idleness. The port and all streams are closed then.
Status RunPort(PortLoopOptions options);

}  // namespace weir::remote
