// SPDX-License-Identifier: Apache-2.0
// A child process of a command, with its process group. The destructor ends the group.
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
  std::vector<std::pair<std::string, std::string>> environment{};  // added to this process's environment
  std::string log_path{};                                          // receives stdout and stderr; empty: inherited
  int kept_fd = -1;                                                // stays open in the child
  int output_fd = -1;                                              // receives stdout and stderr instead of the log
};

class Child {
 public:
  /// Starts the child as the leader of a process group; it is killed if this process dies first. It reads from
  /// /dev/null. A child that inherits the output also inherits the input, unless that is a terminal, which a background
  /// group can't read.
  static Result<Child> Start(const ChildSpec& spec);
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), ended_(std::move(other.ended_)), exit_code_(other.exit_code_) {}
  Child& operator=(Child&& other) noexcept;
  ~Child() { Stop(); }

  /// How the child ended ("exit code 3", "signal 11"); empty while it runs.
  std::optional<std::string> Ended();
  /// As in a shell: the exit code, or 128 and the signal's number; 0 while it runs.
  [[nodiscard]] int ExitCode() const { return exit_code_; }
  /// Asks the group to end, waits briefly, then kills the rest.
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
