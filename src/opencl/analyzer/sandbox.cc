// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/sandbox.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "platform/call_filter.h"
#include "platform/file_rules.h"

namespace weir::opencl {
namespace {

bool Limit(int resource, rlim_t most) {
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  return ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
}

/// False: the kernel supports Landlock but refused the rules.
bool OnlySystemFiles() {
  using platform::FileRules;
  if (!HasLandlock()) return true;
  FileRules rules(FileRules::kReading | FileRules::kWriting);
  for (const char* path : {"/usr", "/lib", "/lib64"}) rules.Allow(path, FileRules::kReading);
  rules.Allow("/etc/ld.so.cache", FileRules::kReading);
  return rules.Enter();
}

/// The system calls of clang and the analysis. Most were found with strace; others serve less common paths of the C
/// library: reading files, memory, threads, the process's own signals, time, and starting the compiler.
constexpr long kAllowed[]{
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_lseek,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_stat,
    SYS_lstat,
    SYS_statx,
    SYS_access,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlink,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_getdents64,
    SYS_fstatfs,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_pipe2,
    SYS_ftruncate,
    SYS_memfd_create,
    SYS_poll,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_futex,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_getrandom,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_time,
    SYS_times,
    SYS_getrusage,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_uname,
    SYS_sysinfo,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_arch_prctl,
    SYS_getrlimit,
    SYS_vfork,
    SYS_fork,
    SYS_execve,
    SYS_wait4,
    SYS_exit,
    SYS_exit_group,
};

constexpr std::uint32_t kWritingFlags = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

platform::CallFilter MakeFilter() {
  using Filter = platform::CallFilter;
  const auto denied = Filter::Return(Filter::kDenied);
  const auto allowed = Filter::Return(SECCOMP_RET_ALLOW);
  Filter filter;
  for (const long call : kAllowed) filter.OnCall(call, {allowed});
  // Files are opened for reading only, also where the kernel has no Landlock.
  filter.OnCall(SYS_openat, {Filter::Argument(2), Filter::Jump(BPF_JSET, kWritingFlags, 1), allowed, denied});
  // Not for signals that another process would get (F_SETOWN), locks and leases.
  filter.AllowCall(SYS_fcntl, 1,
                   {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GET_SEALS, F_ADD_SEALS});
  filter.LimitsAreOnlyRead();
  filter.OnlyPresentNamespaces();
  filter.Add({denied});
  return filter;
}

}  // namespace

bool HasLandlock() { return platform::FileRules::Supported(); }

bool EnterSandbox() {
  const bool limited = Limit(RLIMIT_CPU, 10) && Limit(RLIMIT_CORE, 0) && Limit(RLIMIT_AS, rlim_t{2} << 30) &&
                       Limit(RLIMIT_FSIZE, rlim_t{64} << 20) && Limit(RLIMIT_NOFILE, 64);
  if (!limited || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return OnlySystemFiles() && platform::DropCapabilities() && MakeFilter().Install();
}

}  // namespace weir::opencl
