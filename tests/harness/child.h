// SPDX-License-Identifier: Apache-2.0
// A forked child of a test, for actions that must not affect the test's own process (limits, another user, being
// killed).
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <utility>

#include "base/check.h"

namespace weir::testing {

class Child {
 public:
  /// Runs `body` in a child. The child exits with the returned status and without the parent's destructors.
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    WEIR_CHECK(pid_ >= 0);
    if (pid_ == 0) ::_exit(body());
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) Kill();
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The exit status, or 128 + the signal that ended the child.
  int Wait() {
    int status = 0;
    WEIR_CHECK(::waitpid(std::exchange(pid_, 0), &status, 0) > 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int Kill() {
    ::kill(pid_, SIGKILL);
    return Wait();
  }

 private:
  pid_t pid_;
};

}  // namespace weir::testing
