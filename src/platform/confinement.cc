// SPDX-License-Identifier: Apache-2.0
#include "platform/confinement.h"

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weir::platform {
namespace {

// The leak checker of the address sanitizer stops the threads of its own process with ptrace.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kChecksLeaks = true;
#elif defined(__has_feature)
constexpr bool kChecksLeaks = __has_feature(address_sanitizer) != 0;
#else
constexpr bool kChecksLeaks = false;
#endif

constexpr long kRefused[]{
    // Other processes.
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
    // Mounts and namespaces.
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_mount_setattr,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_unshare,
    SYS_setns,
    // Interfaces of the kernel that are large and have often had errors.
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_fanotify_init,
    SYS_add_key,
    SYS_keyctl,
    SYS_request_key,
    SYS_modify_ldt,
    // Files by handle pass the folders above them, and device files are the administrator's.
    SYS_open_by_handle_at,
    SYS_mknod,
    SYS_mknodat,
    // The machine.
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_iopl,
    SYS_ioperm,
    SYS_syslog,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
};

constexpr std::uint32_t kNamespaceFlags =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr std::uint32_t kX32 = 0x40000000;  // a bit in the numbers of the x32 interface

class Filter {
 public:
  Filter() {
    Load(offsetof(seccomp_data, arch));
    program_.push_back(Jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1));
    program_.push_back(Return(SECCOMP_RET_KILL_PROCESS));
    Load(offsetof(seccomp_data, nr));
    program_.push_back(Jump(BPF_JGE, kX32, 0, 1));
    program_.push_back(Return(kDenied));
    for (const long call : kRefused) OnCall(call, {Return(kDenied)});
    if (!kChecksLeaks) OnCall(SYS_ptrace, {Return(kDenied)});
    // The flags of clone3 lie where no filter sees them; the C library then uses clone.
    OnCall(SYS_clone3, {Return(SECCOMP_RET_ERRNO | ENOSYS)});
    OnCall(SYS_clone, {Argument(0), Jump(BPF_JSET, kNamespaceFlags, 0, 1), Return(kDenied), Return(SECCOMP_RET_ALLOW)});
    OnCall(SYS_socket, {Argument(0), Jump(BPF_JEQ, AF_UNIX, 3), Jump(BPF_JEQ, AF_INET, 2), Jump(BPF_JEQ, AF_INET6, 1),
                        Jump(BPF_JEQ, AF_NETLINK, 0, 1), Return(SECCOMP_RET_ALLOW), Return(kDenied)});
    program_.push_back(Return(SECCOMP_RET_ALLOW));
  }
  /// Without the mitigation against speculative stores, which kernels before 5.16 add for filtered processes: it slows
  /// kernels that compute on CPUs, and protects a process from its own code only.
  [[nodiscard]] bool Install() {
    const sock_fprog filter{.len = static_cast<unsigned short>(program_.size()), .filter = program_.data()};
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter) == 0;
  }

 private:
  static constexpr std::uint32_t kDenied = SECCOMP_RET_ERRNO | EPERM;

  static sock_filter Return(std::uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
  static sock_filter Jump(unsigned how, std::uint32_t value, std::uint8_t if_so, std::uint8_t if_not = 0) {
    return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | how), value, if_so, if_not);
  }
  static sock_filter Argument(std::uint32_t number) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8 * number);
  }
  void Load(std::size_t at) { program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at))); }
  void OnCall(long call, std::initializer_list<sock_filter> does) {
    program_.push_back(Jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, static_cast<std::uint8_t>(does.size())));
    program_.insert(program_.end(), does);
  }

  std::vector<sock_filter> program_;
};

Filter& TheFilter() {
  static Filter filter;
  return filter;
}

/// Also of a program that the user root executes: without new privileges it does not get them back.
bool NoCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && ::syscall(SYS_capset, &header, none) == 0;
}

}  // namespace

void PrepareConfinement() { TheFilter(); }

bool Confine() { return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && NoCapabilities() && TheFilter().Install(); }

}  // namespace weir::platform
