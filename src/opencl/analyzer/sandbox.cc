// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weir::opencl {
namespace {

bool Limit(int resource, rlim_t most) {
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  return ::setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
}

constexpr std::uint64_t kReading =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr std::uint64_t kWriting = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                   LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                   LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SYM |
                                   LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO;

/// False: the kernel supports Landlock but refused the rules.
bool OnlySystemFiles() {
  if (!HasLandlock()) return true;
  landlock_ruleset_attr wanted{};
  wanted.handled_access_fs = kReading | kWriting;
  const long rules = ::syscall(SYS_landlock_create_ruleset, &wanted, sizeof wanted, 0);
  if (rules < 0) return false;
  for (const char* path : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"}) {
    const int at = ::open(path, O_PATH | O_CLOEXEC);
    if (at < 0) continue;
    landlock_path_beneath_attr rule{};
    rule.parent_fd = at;
    rule.allowed_access = path[1] == 'e' ? std::uint64_t{LANDLOCK_ACCESS_FS_READ_FILE} : kReading;
    ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    ::close(at);
  }
  const bool taken = ::syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  ::close(static_cast<int>(rules));
  return taken;
}

/// A program started by root does not regain capabilities either, because new privileges are forbidden.
bool NoCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  return ::syscall(SYS_capset, &header, none) == 0;
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
    SYS_fcntl,
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
constexpr std::uint32_t kNamespaceFlags =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

/// The seccomp filter program. It is executed from top to bottom, and the part for each system call ends with a return.
class CallFilter {
 public:
  CallFilter() {
    Load(offsetof(seccomp_data, arch));
    Unless(AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
    Load(offsetof(seccomp_data, nr));
    for (const long call : kAllowed) OnCall(call, {Return(SECCOMP_RET_ALLOW)});
    // Files may only be opened for reading, also on kernels without Landlock.
    OnCall(SYS_openat, {Argument(2), Jump(BPF_JSET, kWritingFlags, 1), Return(SECCOMP_RET_ALLOW), Return(kDenied)});
    // prlimit64 may read the limits of this process but not set them.
    OnCall(SYS_prlimit64, {Argument(0), Jump(BPF_JEQ, 0, 0, 5), Argument(2), Jump(BPF_JEQ, 0, 0, 3), Argument(2, 4),
                           Jump(BPF_JEQ, 0, 0, 1), Return(SECCOMP_RET_ALLOW), Return(kDenied)});
    // Processes and threads may be created, but no namespaces. A filter cannot see the flags of clone3; after ENOSYS
    // the C library uses clone.
    OnCall(SYS_clone, {Argument(0), Jump(BPF_JSET, kNamespaceFlags, 1), Return(SECCOMP_RET_ALLOW), Return(kDenied)});
    OnCall(SYS_clone3, {Return(SECCOMP_RET_ERRNO | ENOSYS)});
    program_.push_back(Return(kDenied));
  }
  [[nodiscard]] bool Install() {
    const sock_fprog filter{.len = static_cast<unsigned short>(program_.size()), .filter = program_.data()};
    return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
  }

 private:
  static constexpr std::uint32_t kDenied = SECCOMP_RET_ERRNO | EPERM;

  static sock_filter Return(std::uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
  static sock_filter Jump(unsigned how, std::uint32_t value, std::uint8_t if_so, std::uint8_t if_not = 0) {
    return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | how), value, if_so, if_not);
  }
  static sock_filter Argument(std::uint32_t number, std::uint32_t byte = 0) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                    static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8 * number + byte);
  }
  void Load(std::size_t at) { program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at))); }
  void Unless(std::uint32_t value, std::uint32_t what) {
    program_.push_back(Jump(BPF_JEQ, value, 1));
    program_.push_back(Return(what));
  }
  /// The numbers of x32's system calls contain an extra bit and therefore never match.
  void OnCall(long call, std::initializer_list<sock_filter> does) {
    program_.push_back(Jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, static_cast<std::uint8_t>(does.size())));
    program_.insert(program_.end(), does);
  }

  std::vector<sock_filter> program_;
};

}  // namespace

bool HasLandlock() { return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1; }

bool EnterSandbox() {
  const bool limited = Limit(RLIMIT_CPU, 10) && Limit(RLIMIT_CORE, 0) && Limit(RLIMIT_AS, rlim_t{2} << 30) &&
                       Limit(RLIMIT_FSIZE, rlim_t{64} << 20) && Limit(RLIMIT_NOFILE, 64);
  if (!limited || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return OnlySystemFiles() && NoCapabilities() && CallFilter().Install();
}

}  // namespace weir::opencl
