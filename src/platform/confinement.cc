// SPDX-License-Identifier: Apache-2.0
#include "platform/confinement.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "platform/call_filter.h"
#include "platform/file_rules.h"

namespace weir::platform {
namespace {

constexpr long kRefused[]{
    // Other processes.
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_pidfd_getfd,
    SYS_kcmp,
    // What users share by number or name, outside of files.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
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
    // Opening a file by its handle bypasses the permissions of the folders above it. Only the administrator makes
    // device files.
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

CallFilter MakeFilter(bool network) {
  CallFilter filter;
  const auto denied = CallFilter::Return(CallFilter::kDenied);
  const auto allowed = CallFilter::Return(SECCOMP_RET_ALLOW);
  for (const long call : kRefused) filter.OnCall(call, {denied});
  if (!kChecksLeaks) filter.OnCall(SYS_ptrace, {denied});
  filter.OnlyPresentNamespaces();
  // Both can put text into a terminal's input, where a shell would execute it.
  filter.OnCall(SYS_ioctl, {CallFilter::Argument(1), CallFilter::Jump(BPF_JEQ, TIOCSTI, 2),
                            CallFilter::Jump(BPF_JEQ, TIOCLINUX, 1), allowed, denied});
  if (network)
    filter.OnCall(SYS_socket, {CallFilter::Argument(0), CallFilter::Jump(BPF_JEQ, AF_UNIX, 3),
                               CallFilter::Jump(BPF_JEQ, AF_INET, 2), CallFilter::Jump(BPF_JEQ, AF_INET6, 1),
                               CallFilter::Jump(BPF_JEQ, AF_NETLINK, 0, 1), allowed, denied});
  else
    filter.OnCall(SYS_socket, {CallFilter::Argument(0), CallFilter::Jump(BPF_JEQ, AF_UNIX, 1),
                               CallFilter::Jump(BPF_JEQ, AF_NETLINK, 0, 1), allowed, denied});
  filter.Add({allowed});
  return filter;
}

bool EnterRules(const FileRights& files) {
  const std::uint64_t reading = files.reads.empty() ? 0 : FileRules::kReading;
  FileRules rules(FileRules::kWriting | reading);
  if (files.writes_below.empty()) {
    if (!rules.Allow("/dev/null", FileRules::kChanging)) return false;
  } else {
    if (!rules.Allow(files.writes_below.c_str(), FileRules::kWriting | reading)) return false;
    if (!rules.Allow("/proc", FileRules::kChanging | reading)) return false;
    if (reading != 0 && !rules.Allow("/dev", FileRules::kListing)) return false;
    if (files.devices.empty() && !rules.Allow("/dev", FileRules::kChanging | reading)) return false;
    for (const std::string& device : files.devices)
      if (!rules.Allow(device.c_str(), FileRules::kChanging | reading)) return false;
  }
  for (const std::string& path : files.reads)
    if (!rules.Allow(path.c_str(), reading)) return false;
  return rules.Enter();
}

CallFilter& TheFilter() {
  static CallFilter filter = MakeFilter(/*network=*/false);
  return filter;
}

}  // namespace

void PrepareConfinement() { TheFilter(); }

bool Confine(const Confinement& confinement) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (confinement.files != nullptr && FileRules::Supported() && !EnterRules(*confinement.files)) return false;
  return DropCapabilities() && (confinement.network ? MakeFilter(true).Install() : TheFilter().Install());
}

}  // namespace weir::platform
