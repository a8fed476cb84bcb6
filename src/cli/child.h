// SPDX-License-Identifier: Apache-2.0
// A process that a command started, and its children; gone when this object is.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weir::cli {

struct ChildSpec {
  std::vector<std::string> argv{};                                 // argv[0]: found in PATH unless it has a slash
  std::vector<std::pair<std::string, std::string>> environment{};  // added to ours
  std::string log_path{};                                          // gets stdout and stderr; empty: as ours
  int kept_fd = -1;                                                // stays open in the child
  int output_fd = -1;                                              // gets stdout and stderr instead of the log
};

class Child {
 public:
  /// Leads a process group of its own, and is killed if this process dies without ending it. It reads from /dev/null,
  /// but one with our output reads our input too unless that is a terminal, which a background group can't read.
  static Result<Child> Start(const ChildSpec& spec);
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), ended_(std::move(other.ended_)), exit_code_(other.exit_code_) {}
  Child& operator=(Child&& other) noexcept;
  ~Child() { Stop(); }

  /// How it ended ("exit code 3", "signal 11"), or nothing while it runs.
  std::optional<std::string> Ended();
  /// As a shell has it: the exit code, or 128 and the signal's number; 0 while it runs.
  [[nodiscard]] int ExitCode() const { return exit_code_; }
  /// Asks its group to end, waits a little, then kills what is left.
  void Stop();
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  std::optional<std::string> ended_;
  int exit_code_ = 0;
};

/// The last lines of a child's log, to show with an error.
std::string LogTail(const std::string& path);

}  // namespace weir::cli
