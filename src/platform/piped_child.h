// SPDX-License-Identifier: Apache-2.0
// A child program that answers requests: Send writes to its standard input, Receive reads its standard output. It ends
// with the object.
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
  /// `argv[0]`: its path. An error means that it can't be executed.
  static Result<PipedChild> Start(const std::vector<std::string>& argv);
  ~PipedChild();
  PipedChild(PipedChild&& other) noexcept;
  PipedChild& operator=(PipedChild&& other) noexcept;
  PipedChild(const PipedChild&) = delete;
  PipedChild& operator=(const PipedChild&) = delete;

  /// Transfer all bytes, each call within `within`. kTimeout, or kUnavailable if the child has ended; the child is
  /// unusable afterwards.
  Status Send(std::span<const std::byte> bytes, Duration within);
  Status Receive(std::span<std::byte> bytes, Duration within);

 private:
  PipedChild(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_ = 0;
  Fd socket_;
};

}  // namespace weir::platform
