// SPDX-License-Identifier: Apache-2.0
#include "opencl/analyzer/sandbox.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

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

void OnlySystemFiles() {
  landlock_ruleset_attr wanted{};
  wanted.handled_access_fs = kReading | kWriting;
  const long rules = ::syscall(SYS_landlock_create_ruleset, &wanted, sizeof wanted, 0);
  if (rules < 0) return;
  for (const char* path : {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"}) {
    const int at = ::open(path, O_PATH | O_CLOEXEC);
    if (at < 0) continue;
    landlock_path_beneath_attr rule{};
    rule.parent_fd = at;
    rule.allowed_access = path[1] == 'e' ? std::uint64_t{LANDLOCK_ACCESS_FS_READ_FILE} : kReading;
    ::syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    ::close(at);
  }
  ::syscall(SYS_landlock_restrict_self, rules, 0);
  ::close(static_cast<int>(rules));
}

/// Calls that neither a compiler nor an analysis needs fail with EPERM.
bool NoSockets() {
  constexpr auto kNumber = static_cast<std::uint32_t>(offsetof(seccomp_data, nr));
  constexpr auto kArch = static_cast<std::uint32_t>(offsetof(seccomp_data, arch));
  sock_filter program[]{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kArch),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 7, 0),  // x32
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog filter{.len = sizeof program / sizeof program[0], .filter = program};
  return ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace

bool EnterSandbox() {
  const bool limited = Limit(RLIMIT_CPU, 10) && Limit(RLIMIT_CORE, 0) && Limit(RLIMIT_AS, rlim_t{2} << 30) &&
                       Limit(RLIMIT_FSIZE, rlim_t{64} << 20);
  if (!limited || ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  OnlySystemFiles();  // not every kernel has Landlock
  return NoSockets();
}

}  // namespace weir::opencl
