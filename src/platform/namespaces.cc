// SPDX-License-Identifier: Apache-2.0
#include "platform/namespaces.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::platform {

bool EnterOwnNamespaces() { return ::unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0; }

std::string WhyNoOwnNamespaces() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(EnterOwnNamespaces() ? 0 : errno);
  int status = 0;
  if (child < 0) return std::strerror(errno);
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return std::strerror(errno);
  if (!WIFEXITED(status)) return "the child that tried it was killed";
  return WEXITSTATUS(status) == 0 ? "" : std::strerror(WEXITSTATUS(status));
}

}  // namespace weir::platform
