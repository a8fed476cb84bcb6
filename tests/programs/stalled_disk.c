// SPDX-License-Identifier: Apache-2.0
// A library that is preloaded into a daemon and makes its disk stall or fail. While the file STALLS exists, fsync does
// not return; while the file FAILS exists, it returns an error. The environment names both files.
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int exists(const char* variable) {
  const char* path = getenv(variable);
  return path != NULL && access(path, F_OK) == 0;
}

__attribute__((visibility("default"))) int fsync(int fd) {
  const struct timespec look_again = {.tv_sec = 0, .tv_nsec = 10000000};
  while (exists("STALLS")) nanosleep(&look_again, NULL);
  if (exists("FAILS")) {
    errno = EIO;
    return -1;
  }
  return (int)syscall(SYS_fsync, fd);
}
