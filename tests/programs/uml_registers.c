// SPDX-License-Identifier: Apache-2.0
// Preloaded into user-mode Linux (tests/e2e/guest_e2e.py). Linux 6.1 as a program gives its processes their registers
// by PTRACE_SETREGSET in the 2,696 bytes that they took up to AVX-512; a kernel on a CPU with more (AMX) takes all or
// none (EFAULT), and the virtual machine's first process is its last. What 6.1 doesn't know of stays as it is.
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

enum { kBitsAt = 512 };                     // of the XSAVE area: which parts are in use (Intel SDM, volume 1, 13.4.2)
static const uint64_t kPartsGiven = 0x2FF;  // x87 to AVX-512, and the protection keys: what lies in 2,696 bytes

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
