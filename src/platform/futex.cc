// SPDX-License-Identifier: Apache-2.0
#include "platform/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

#include "platform/clock.h"

namespace weir::platform {

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout, std::uint32_t bits) {
  const std::int64_t until_ns = NowNs() + timeout.count();  // waits with bits take a point in time
  timespec t{};
  t.tv_sec = until_ns / 1'000'000'000;
  t.tv_nsec = until_ns % 1'000'000'000;
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET, expected, &t, nullptr, bits);
}

bool FutexWakeOne(std::atomic<std::uint32_t>& word, std::uint32_t bits) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_BITSET, 1, nullptr, nullptr, bits) >
         0;
}

void FutexWakeAll(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace weir::platform
