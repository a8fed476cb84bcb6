// SPDX-License-Identifier: Apache-2.0
// Takes a relay's program away from a node that asks for it: starts the command that moves it, one at a time, when
// MoveTimer says so; without a command it says once that it was asked. Page: docs/migration.md
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "platform/fd.h"
#include "remote/move_timer.h"

namespace weir::remote {

class Leaver {
 public:
  /// `command`: moves the program by the relay's control socket; empty: there is none. `program`, `hint`: for people.
  Leaver(std::vector<std::string> command, std::string program, std::string hint)
      : command_(std::move(command)), program_(std::move(program)), hint_(std::move(hint)) {}
  /// Ends what still runs.
  ~Leaver();
  Leaver(const Leaver&) = delete;
  Leaver& operator=(const Leaver&) = delete;

  /// Again and again. `why`: its node asks it to leave; empty: it does not.
  void See(Instant now, const std::string& why);
  /// The command runs, as far as has been seen.
  [[nodiscard]] bool trying() const { return timer_.trying(); }

 private:
  void Start(Instant now, const std::string& why);
  void Reap(Instant now);

  const std::vector<std::string> command_;
  const std::string program_, hint_;
  MoveTimer timer_;
  bool said_ = false;
  pid_t pid_ = 0;
  platform::Fd output_;  // of the command; what it says of errors goes where ours does
};

}  // namespace weir::remote
