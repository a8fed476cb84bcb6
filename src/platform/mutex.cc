// SPDX-License-Identifier: Apache-2.0
#include "platform/mutex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace weir::platform {

// The functions of a tenant's program that a shim stands in for must not change errno, so these do not either.

void Mutex::AwaitAndTake() noexcept {
  const int error_number = errno;
  while (word_.exchange(kAwaited, std::memory_order_acquire) != kFree)
    ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAIT_PRIVATE, kAwaited, nullptr, nullptr, 0);
  errno = error_number;
}

void Mutex::WakeOne() noexcept {
  const int error_number = errno;
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = error_number;
}

}  // namespace weir::platform
