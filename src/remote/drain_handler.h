// SPDX-License-Identifier: Apache-2.0
// Answers a node's drain requests. Starts the command that moves the relay's program, one at a time, when MoveTimer
// allows it. Without a command, prints once that the node wants the program to move. Page: docs/migration.md
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "platform/fd.h"
#include "remote/move_timer.h"

namespace weir::remote {

class DrainHandler {
 public:
  /// `command` moves the program through the relay's control socket; empty: there is none. `program` and `hint` are
  /// used in messages.
  DrainHandler(std::vector<std::string> command, std::string program, std::string hint)
      : command_(std::move(command)), program_(std::move(program)), hint_(std::move(hint)) {}
  /// Ends a command that still runs.
  ~DrainHandler();
  DrainHandler(const DrainHandler&) = delete;
  DrainHandler& operator=(const DrainHandler&) = delete;

  /// Called repeatedly. `why`: the reason of the drain request; empty if there is none.
  void See(Instant now, const std::string& why);
  /// Whether the command was still running at the last See.
  [[nodiscard]] bool trying() const { return timer_.trying(); }

 private:
  void Start(Instant now, const std::string& why);
  void Reap(Instant now);

  const std::vector<std::string> command_;
  const std::string program_, hint_;
  MoveTimer timer_;
  bool said_ = false;
  pid_t pid_ = 0;
  platform::Fd output_;  // of the command; its error messages go to this process's stderr
};

}  // namespace weir::remote
