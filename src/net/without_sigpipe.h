// SPDX-License-Identifier: Apache-2.0
// For calls that raise SIGPIPE on a closed connection and have no flag to prevent it.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace weir::net {

/// Blocks SIGPIPE for this thread during its lifetime, and discards a SIGPIPE raised meanwhile.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    ::sigtimedwait(&sigpipe_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_{}, before_{};
};

}  // namespace weir::net
