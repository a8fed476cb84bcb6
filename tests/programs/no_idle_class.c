// SPDX-License-Identifier: Apache-2.0
// Preloaded by scripts/bench-network --awake: prevents SCHED_IDLE, so that no thread of a relay or portal keeps a
// processor awake (src/remote/keep_awake.cc). Changes nothing else.
#include <errno.h>
#include <pthread.h>
#include <sched.h>

__attribute__((visibility("default"))) int pthread_setschedparam(pthread_t thread, int policy,
                                                                 const struct sched_param* param) {
  (void)thread;
  (void)policy;
  (void)param;
  return EPERM;
}
