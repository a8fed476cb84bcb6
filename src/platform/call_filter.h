// SPDX-License-Identifier: Apache-2.0
// Builds and installs a filter of system calls (seccomp) for x86-64. The filter is a program that the kernel runs from
// top to bottom at every call of the process; the first return decides about the call.
#pragma once

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace weir::platform {

// The leak checker of the address sanitizer stops the threads of its own process with ptrace.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kChecksLeaks = true;
#elif defined(__has_feature)
inline constexpr bool kChecksLeaks = __has_feature(address_sanitizer) != 0;
#else
inline constexpr bool kChecksLeaks = false;
#endif

class CallFilter {
 public:
  static constexpr std::uint32_t kDenied = SECCOMP_RET_ERRNO | EPERM;

  /// A call of another architecture ends the process. Calls of the x32 interface, whose numbers differ, are denied.
  CallFilter() {
    Load(offsetof(seccomp_data, arch));
    Add({Jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1), Return(SECCOMP_RET_KILL_PROCESS)});
    Load(offsetof(seccomp_data, nr));
    Add({Jump(BPF_JGE, kX32, 0, 1), Return(kDenied)});
  }

  /// Ends the program: `what` is done with the call (SECCOMP_RET_ALLOW, kDenied, ...).
  static sock_filter Return(std::uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
  /// Compares the loaded word with `value`, as `how` says. Skips `if_so` instructions if the comparison holds, else
  /// `if_not`.
  static sock_filter Jump(unsigned how, std::uint32_t value, std::uint8_t if_so, std::uint8_t if_not = 0) {
    return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | how), value, if_so, if_not);
  }
  /// Loads 32 bits of an argument of the call: the low half with `byte` 0, the high half with 4.
  static sock_filter Argument(std::uint32_t number, std::uint32_t byte = 0) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                    static_cast<std::uint32_t>(offsetof(seccomp_data, args)) + 8 * number + byte);
  }

  void Add(std::initializer_list<sock_filter> does) { program_.insert(program_.end(), does); }
  /// Runs `does` for calls with the number `call`. `does` must end with a return: it may load another word in place of
  /// the number.
  void OnCall(long call, std::initializer_list<sock_filter> does) {
    Add({Jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, static_cast<std::uint8_t>(does.size()))});
    Add(does);
  }
  /// Allows `call` if the low half of its argument `number` is one of `values`, and denies it otherwise.
  void AllowCall(long call, std::uint32_t number, std::initializer_list<std::uint32_t> values) {
    auto left = static_cast<std::uint8_t>(values.size());
    Add({Jump(BPF_JEQ, static_cast<std::uint32_t>(call), 0, static_cast<std::uint8_t>(left + 3)), Argument(number)});
    for (const std::uint32_t value : values) Add({Jump(BPF_JEQ, value, left--)});
    Add({Return(kDenied), Return(SECCOMP_RET_ALLOW)});
  }
  /// Denies clone with new namespaces; threads and processes in the present ones are allowed. A filter cannot read the
  /// flags of clone3, which lie in memory: clone3 reports ENOSYS, and the C library then uses clone.
  void OnlyPresentNamespaces() {
    OnCall(SYS_clone, {Argument(0), Jump(BPF_JSET, kNamespaceFlags, 1), Return(SECCOMP_RET_ALLOW), Return(kDenied)});
    OnCall(SYS_clone3, {Return(SECCOMP_RET_ERRNO | ENOSYS)});
  }

  /// A process reads its own limits and sets none.
  void LimitsAreOnlyRead() {
    OnCall(SYS_prlimit64, {Argument(0), Jump(BPF_JEQ, 0, 0, 5), Argument(2), Jump(BPF_JEQ, 0, 0, 3), Argument(2, 4),
                           Jump(BPF_JEQ, 0, 0, 1), Return(SECCOMP_RET_ALLOW), Return(kDenied)});
  }

  /// Requires no_new_privs. False, with errno: it is not installed. Turns off the mitigation of speculative store
  /// bypass, which kernels before 5.16 turn on for filtered processes: it slows computation, and it protects a process
  /// only from its own code.
  [[nodiscard]] bool Install() {
    const sock_fprog filter{.len = static_cast<unsigned short>(program_.size()), .filter = program_.data()};
    return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &filter) == 0;
  }

 private:
  static constexpr std::uint32_t kNamespaceFlags =
      CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  static constexpr std::uint32_t kX32 = 0x40000000;  // a bit in the numbers of the x32 interface

  void Load(std::size_t at) { Add({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at))}); }

  std::vector<sock_filter> program_;
};

/// Gives up all capabilities. A program that the user root executes does not get them back without new privileges.
inline bool DropCapabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
  return ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && ::syscall(SYS_capset, &header, none) == 0;
}

}  // namespace weir::platform
