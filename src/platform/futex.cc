// SPDX-License-Identifier: Apache-2.0
#include "platform/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace weir::platform {

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout) {
  timespec t{};
  t.tv_sec = timeout.count() / 1'000'000'000;
  t.tv_nsec = timeout.count() % 1'000'000'000;
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, expected, &t, nullptr, 0);
}

void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace weir::platform
