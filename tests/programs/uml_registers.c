// SPDX-License-Identifier: Apache-2.0
// Preloaded into user-mode Linux (tests/e2e/guest_e2e.py). User-mode Linux 6.1 sets its processes' registers by
// PTRACE_SETREGSET with 2,696 bytes, which suffice up to AVX-512. On a CPU with more registers (AMX) the host's kernel
// accepts all of them or none (EFAULT), and the virtual machine's first process dies. This library keeps the values of
// registers that 6.1 does not know.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

// offset in the XSAVE area: which parts are in use (Intel SDM, volume 1, 13.4.2)
enum { kBitsAt = 512 };
static const uint64_t kPartsGiven = 0x2FF;  // x87 to AVX-512, and the protection keys: the parts within 2,696 bytes

typedef long (*PtraceFunction)(enum __ptrace_request, ...);

static long SetAll(PtraceFunction real, pid_t pid, void* kind, const struct iovec* given) {
  static _Alignas(64) char all[1 << 16];
  struct iovec whole = {all, sizeof all};
  if (real(PTRACE_GETREGSET, pid, kind, &whole) != 0 || given->iov_len > whole.iov_len) return -1;
  uint64_t before = 0, wanted = 0;
  memcpy(&before, all + kBitsAt, sizeof before);
  memcpy(all, given->iov_base, given->iov_len);
  memcpy(&wanted, all + kBitsAt, sizeof wanted);
  wanted = (wanted & kPartsGiven) | (before & ~kPartsGiven);
  memcpy(all + kBitsAt, &wanted, sizeof wanted);
  return real(PTRACE_SETREGSET, pid, kind, &whole);
}

__attribute__((visibility("default"))) long ptrace(enum __ptrace_request request, ...) {
  static PtraceFunction real;
  if (real == NULL) real = (PtraceFunction)dlsym(RTLD_NEXT, "ptrace");
  va_list arguments;
  va_start(arguments, request);
  const pid_t pid = va_arg(arguments, pid_t);
  void* const address = va_arg(arguments, void*);
  void* const data = va_arg(arguments, void*);
  va_end(arguments);
  const long result = real(request, pid, address, data);
  if (result == 0 || request != PTRACE_SETREGSET || address != (void*)NT_X86_XSTATE || errno != EFAULT) return result;
  return SetAll(real, pid, address, data);
}
