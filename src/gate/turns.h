// SPDX-License-Identifier: Apache-2.0
// Whose turn it is of the threads that wait for a vGPU's allowance. Without turns, whichever thread is scheduled first
// after a grant takes the allowance, and some processes wait many times as long as others.
//
// All wait on one futex word. The kernel wakes the thread first that has slept longest, but every thread wakes up each
// kWaitSlice to see whether the daemon lives, and goes to the end of that queue. So a thread's age is in the bits that
// it waits with: of two threads, the one that has waited twice as long is woken first. Agents without bits match all.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "gate/agent.h"
#include "platform/futex.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// Ages are told apart up to 51 s. A call of WakeNext costs a system call for each age that nobody has.
inline constexpr int kTurnAges = 12;
/// Bit of threads that wait for something else than the allowance: a pace, a memory order.
inline constexpr std::uint32_t kWaitsForNoTurn = 1U << kTurnAges;

/// The bit of a thread that has waited this long: less than 1 slice, 1, 2 to 3, 4 to 7, ..., 1,024 and more.
constexpr std::uint32_t TurnBit(Duration waited) {
  const auto slices = static_cast<std::uint64_t>(std::max(waited, Duration{0}) / kWaitSlice);
  return 1U << std::min(static_cast<int>(std::bit_width(slices)), kTurnAges - 1);
}

/// Wakes the thread whose turn it is, if one waits.
inline void WakeNext(proto::VgpuRegion& region) {
  for (int age = kTurnAges - 1; age >= 0; --age)
    if (platform::FutexWakeOne(region.wake_word, 1U << age)) return;
}

}  // namespace weir::gate
