// SPDX-License-Identifier: Apache-2.0
// Whose turn it is of the threads that wait for a vGPU's allowance. Without turns, whichever thread is scheduled first
// after a grant takes the allowance, and some processes wait many times as long as others.
//
// All wait on one futex word. The kernel wakes the thread first that has slept longest, but every thread wakes up each
// kWaitSlice to see whether the daemon lives, and goes to the end of that queue. So a thread's age is in the bits that
// it waits with: of two threads, the one that has waited twice as long is woken first. Agents without bits match all.
//
// VgpuRegion::waiting_ages tells which ages a waker has to try, so that waking the only thread that waits is one system
// call. A bit may stay behind when its thread has left. It must not be missing while its thread sleeps, so a waker that
// clears a bit increments the futex word afterwards:
//
//   waiter    reads the word ──▶ sets its bit ──▶ sleeps, if the word is the same
//   waker     clears the bit ──▶ increments the word ──▶ wakes; sets the bit again if a thread was there
//
// If the bit was set before it was cleared, the word was read before it was incremented: the thread does not fall
// asleep, and sets its bit again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "gate/agent.h"
#include "platform/futex.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// Ages are told apart up to 51 s.
inline constexpr int kTurnAges = 12;
inline constexpr std::uint32_t kAllTurns = (1U << kTurnAges) - 1;
/// Bit of threads that wait for something else than the allowance: a pace, a memory order.
inline constexpr std::uint32_t kWaitsForNoTurn = 1U << kTurnAges;

/// The bit of a thread that has waited this long: less than 1 slice, 1, 2 to 3, 4 to 7, ..., 1,024 and more.
constexpr std::uint32_t TurnBit(Duration waited) {
  const auto slices = static_cast<std::uint64_t>(std::max(waited, Duration{0}) / kWaitSlice);
  return 1U << std::min(static_cast<int>(std::bit_width(slices)), kTurnAges - 1);
}

/// To be called by a thread before it sleeps with this bit, after it has read the futex word.
inline void NoteTurn(proto::VgpuRegion& region, std::uint32_t bit) {
  if ((region.waiting_ages.load(std::memory_order_seq_cst) & bit) == 0)
    region.waiting_ages.fetch_or(bit, std::memory_order_seq_cst);
}

/// Wakes the thread whose turn it is, if one waits. `wake`: FutexWakeOne, or a test's.
template <typename Wake>
void WakeNext(proto::VgpuRegion& region, Wake wake) {
  for (std::uint32_t ages = region.waiting_ages.load(std::memory_order_seq_cst) & kAllTurns; ages != 0;) {
    const std::uint32_t oldest = std::bit_floor(ages);
    ages ^= oldest;
    region.waiting_ages.fetch_and(~oldest, std::memory_order_seq_cst);
    region.wake_word.fetch_add(1, std::memory_order_seq_cst);
    if (!wake(region.wake_word, oldest)) continue;
    region.waiting_ages.fetch_or(oldest, std::memory_order_seq_cst);  // others of this age may wait
    return;
  }
  wake(region.wake_word, kAllTurns);  // agents before 1.8 set no bits
}
inline void WakeNext(proto::VgpuRegion& region) { WakeNext(region, &platform::FutexWakeOne); }

}  // namespace weir::gate
