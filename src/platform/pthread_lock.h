// SPDX-License-Identifier: Apache-2.0
// Holds a pthread mutex, for code in a tenant's process that also waits for a condition. Other code there uses mutex.h.
// The child of a fork must be able to abandon the mutex in any state and start with a new one, so it is no std::mutex.
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
