// SPDX-License-Identifier: Apache-2.0
// Holds a pthread mutex. Used instead of std::mutex because code in a tenant's process must be able to abandon a mutex
// in the child of a fork, in any state, and start with a new one.
#pragma once

#include <pthread.h>

namespace weir::platform {

class PthreadLock {
 public:
  explicit PthreadLock(pthread_mutex_t& mutex) : mutex_(mutex) { ::pthread_mutex_lock(&mutex_); }
  ~PthreadLock() { ::pthread_mutex_unlock(&mutex_); }
  PthreadLock(const PthreadLock&) = delete;
  PthreadLock& operator=(const PthreadLock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace weir::platform
