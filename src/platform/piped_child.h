// SPDX-License-Identifier: Apache-2.0
// A program of ours that is asked things: what it is sent comes to its standard input, what it writes to its standard
// output comes back. It ends with the object.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "platform/fd.h"

namespace weir::platform {

class PipedChild {
 public:
  /// `argv[0]`: its path. Errors: what keeps it from being executed.
  static Result<PipedChild> Start(const std::vector<std::string>& argv);
  ~PipedChild();
  PipedChild(PipedChild&& other) noexcept;
  PipedChild& operator=(PipedChild&& other) noexcept;
  PipedChild(const PipedChild&) = delete;
  PipedChild& operator=(const PipedChild&) = delete;

  /// All of them, each within `within`. kTimeout, and kUnavailable when it has ended; it is of no use then.
  Status Send(std::span<const std::byte> bytes, Duration within);
  Status Receive(std::span<std::byte> bytes, Duration within);

 private:
  PipedChild(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_ = 0;
  Fd socket_;
};

}  // namespace weir::platform
