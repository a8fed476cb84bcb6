// SPDX-License-Identifier: Apache-2.0
#include "platform/confine_service.h"

#include <fcntl.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "platform/call_filter.h"
#include "platform/confinement.h"
#include "platform/file_rules.h"
#include "platform/spawn.h"

namespace weir::platform {
namespace {

// What a program needs that serves connections with what it has open. Calls with conditions are in MakeServiceFilter.
constexpr long kAllowedToServices[]{
    // Bytes of what is open, and of files that are opened for reading.
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_sendfile,
    SYS_lseek,
    SYS_flock,
    SYS_fallocate,
    SYS_close,
    SYS_close_range,
    SYS_fstat,
    SYS_stat,
    SYS_lstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_access,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlink,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_pipe,
    SYS_pipe2,
    // Connections.
    SYS_socketpair,
    SYS_connect,
    SYS_accept,
    SYS_accept4,
    SYS_sendto,
    SYS_sendmsg,
    SYS_sendmmsg,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_recvmmsg,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
    // Waiting.
    SYS_poll,
    SYS_ppoll,
    SYS_select,
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_wait,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_signalfd4,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_restart_syscall,
    // Memory.
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_memfd_create,
    SYS_ftruncate,
    // Threads and signals of its own.
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_rseq,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_getpriority,
    SYS_getcpu,
    SYS_membarrier,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_pidfd_open,
    SYS_exit,
    SYS_exit_group,
    // What the process and the machine are.
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getgroups,
    SYS_getrlimit,
    SYS_getrusage,
    SYS_capget,
    SYS_uname,
    SYS_sysinfo,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_time,
    SYS_times,
    SYS_getrandom,
};
// What newer C libraries use instead of TCGETS and TCSETS. <asm/termbits.h> has them, which <termios.h> excludes.
constexpr std::uint32_t kTcGets2 = 0x802C542A, kTcSets2 = 0x402C542B;
constexpr std::uint32_t kServiceWritingFlags = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

CallFilter MakeServiceFilter(bool network) {
  using Filter = CallFilter;
  const auto denied = Filter::Return(Filter::kDenied);
  const auto allowed = Filter::Return(SECCOMP_RET_ALLOW);
  Filter filter;
  for (const long call : kAllowedToServices) filter.OnCall(call, {allowed});
  if (kChecksLeaks)
    for (const long call : {SYS_ptrace, SYS_wait4, SYS_prctl}) filter.OnCall(call, {allowed});
  filter.OnCall(SYS_open, {Filter::Argument(1), Filter::Jump(BPF_JSET, kServiceWritingFlags, 1), allowed, denied});
  filter.OnCall(SYS_openat, {Filter::Argument(2), Filter::Jump(BPF_JSET, kServiceWritingFlags, 1), allowed, denied});
  // The flags of openat2 lie in memory that a filter cannot read. The C library does not use this call.
  filter.OnCall(SYS_openat2, {Filter::Return(SECCOMP_RET_ERRNO | ENOSYS)});
  // A service may signal itself, as abort() does. It starts no process, so that its number stays the same.
  filter.OnCall(SYS_tgkill, {Filter::Argument(0), Filter::Jump(BPF_JEQ, static_cast<std::uint32_t>(::getpid()), 0, 1),
                             allowed, denied});
  // New threads are allowed, new processes are not. The leak checker's tracer is a process that shares the memory.
  constexpr std::uint32_t kOfThreads = kChecksLeaks ? CLONE_VM : CLONE_THREAD;
  filter.OnCall(SYS_clone, {Filter::Argument(0), Filter::Jump(BPF_JSET, kOfThreads, 1), denied, allowed});
  filter.OnCall(SYS_clone3, {Filter::Return(SECCOMP_RET_ERRNO | ENOSYS)});
  // Confine() has said which other families are allowed.
  if (network)
    filter.OnCall(SYS_socket, {allowed});
  else
    filter.OnCall(SYS_socket, {Filter::Argument(0), Filter::Jump(BPF_JEQ, AF_UNIX, 0, 1), allowed, denied});
  // Not for signals that another process would get, and leases.
  filter.AllowCall(SYS_fcntl, 1,
                   {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GET_SEALS, F_ADD_SEALS, F_OFD_GETLK,
                    F_OFD_SETLK});
  // The last ones are for a guest's serial port.
  filter.AllowCall(SYS_ioctl, 1, {FIONBIO, FIONREAD, TCGETS, kTcGets2, TCSETS, kTcSets2});
  // For the calling thread, which then has less.
  for (const long call : {SYS_sched_setaffinity, SYS_sched_setscheduler}) filter.AllowCall(call, 0, {0});
  filter.AllowCall(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_SET_PDEATHSIG, PR_SET_TIMERSLACK});
  filter.LimitsAreOnlyRead();
  filter.Add({denied});
  return filter;
}

}  // namespace

bool ConfineService(const ServiceRights& rights) {
  if (rights.user != 0 && !Become({.uid = rights.user, .gid = rights.user})) return false;
  if (!Confine({.network = rights.network})) return false;
  // A filter of system calls does not see the address that a socket is connected to. A socket that listens or is
  // connected can be connected to another address.
  if (!rights.network && !FileRules::RefuseConnections()) return false;
  return MakeServiceFilter(rights.network).Install();
}

}  // namespace weir::platform
