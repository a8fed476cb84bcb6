// SPDX-License-Identifier: Apache-2.0
// Preloaded by scripts/bench-network --awake: no thread becomes one of the lowest kind (SCHED_IDLE), so that a relay's
// and a portal's keep no processor awake (src/remote/keep_awake.cc). Nothing else of theirs changes.
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
