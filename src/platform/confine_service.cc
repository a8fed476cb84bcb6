// SPDX-License-Identifier: Apache-2.0
#include "platform/confine_service.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include "platform/call_filter.h"
#include "platform/confinement.h"
#include "platform/spawn.h"

namespace weir::platform {
namespace {

constexpr long kRefusedToServices[]{
    // Programs and signals.
    SYS_execve,
    SYS_execveat,
    SYS_fork,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    // Files and folders.
    SYS_creat,
    SYS_truncate,
    SYS_link,
    SYS_linkat,
    SYS_symlink,
    SYS_symlinkat,
    SYS_unlink,
    SYS_unlinkat,
    SYS_rename,
    SYS_renameat,
    SYS_renameat2,
    SYS_mkdir,
    SYS_mkdirat,
    SYS_rmdir,
    SYS_chmod,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_chown,
    SYS_fchown,
    SYS_lchown,
    SYS_fchownat,
    // Other services.
    SYS_bind,
    SYS_listen,
};
constexpr std::uint32_t kServiceWritingFlags = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

CallFilter MakeServiceFilter(bool network) {
  using Filter = CallFilter;
  const auto denied = Filter::Return(Filter::kDenied);
  const auto allowed = Filter::Return(SECCOMP_RET_ALLOW);
  Filter filter;
  for (const long call : kRefusedToServices) filter.OnCall(call, {denied});
  filter.OnCall(SYS_open, {Filter::Argument(1), Filter::Jump(BPF_JSET, kServiceWritingFlags, 1), allowed, denied});
  filter.OnCall(SYS_openat, {Filter::Argument(2), Filter::Jump(BPF_JSET, kServiceWritingFlags, 1), allowed, denied});
  // The flags of openat2 lie in memory that a filter cannot read. The C library does not use this call.
  filter.OnCall(SYS_openat2, {Filter::Return(SECCOMP_RET_ERRNO | ENOSYS)});
  // A service may signal itself, as abort() does. It starts no process, so that its number stays the same.
  filter.OnCall(SYS_tgkill, {Filter::Argument(0), Filter::Jump(BPF_JEQ, static_cast<std::uint32_t>(::getpid()), 0, 1),
                             allowed, denied});
  // New threads are allowed, new processes are not. A thread shares the memory, a process does not.
  filter.OnCall(SYS_clone, {Filter::Argument(0), Filter::Jump(BPF_JSET, CLONE_VM, 1), denied, allowed});
  filter.OnCall(SYS_clone3, {Filter::Return(SECCOMP_RET_ERRNO | ENOSYS)});
  if (!network) filter.OnCall(SYS_socket, {Filter::Argument(0), Filter::Jump(BPF_JEQ, AF_UNIX, 0, 1), allowed, denied});
  filter.Add({allowed});
  return filter;
}

}  // namespace

bool ConfineService(const ServiceRights& rights) {
  if (rights.user != 0 && !Become({.uid = rights.user, .gid = rights.user})) return false;
  return Confine({.network = rights.network}) && MakeServiceFilter(rights.network).Install();
}

}  // namespace weir::platform
