// SPDX-License-Identifier: Apache-2.0
// When a service program ends: on SIGINT or SIGTERM, or when the process that started it has ended.
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/result.h"
#include "base/units.h"
#include "platform/fd.h"

namespace weir::platform {

/// Readable when the process has ended, even if it had ended before the call. Zero: an empty descriptor.
Result<Fd> WatchParent(pid_t parent);

struct ServiceEnd {
  /// Blocks both signals in this thread and in the threads that it starts later. Call it before the first thread is
  /// started: a signal that reaches a thread which does not block it ends the whole process. `parent`: as in
  /// WatchParent.
  static Result<ServiceEnd> Watch(pid_t parent = 0);

  /// Waits until `stop` or `parent` is readable. False: neither was within this time.
  [[nodiscard]] bool Wait(Duration at_most) const;

  Fd stop;    // readable when SIGINT or SIGTERM has arrived
  Fd parent;  // readable when the parent has ended; empty: there is no parent
};

/// For a program without an event loop: starts a thread that ends the process with exit status 0, even while another
/// thread waits in a driver's call. The thread first runs `clean_up`. Call this before other threads are started.
Status ExitAtServiceEnd(pid_t parent, std::function<void()> clean_up = {});

}  // namespace weir::platform
