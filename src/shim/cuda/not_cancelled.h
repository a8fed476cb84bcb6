// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace weir::shim::cuda {

/// Keeps the program's thread from being cancelled inside Weir, where that would end the process.
class NotCancelled {
 public:
  NotCancelled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_); }
  ~NotCancelled() { ::pthread_setcancelstate(state_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int state_ = 0;
};

}  // namespace weir::shim::cuda
