// SPDX-License-Identifier: Apache-2.0
// The order in which threads that wait for a vGPU's allowance are woken. Without an order, the thread that is scheduled
// first after a grant takes the allowance, and some processes wait many times as long as others.
//
// All threads wait on one futex word. The kernel wakes the thread that has slept longest, but every thread wakes up
// once in WaitSlice() to check whether the daemon lives, and then goes to the end of the kernel's queue. Therefore the
// futex bits with which a thread waits show its age: of two threads, the one that has waited twice as long is woken
// first. Agents that set no bits match every wake.
//
// VgpuRegion::waiting_ages shows which ages a waker has to try, so that waking the only thread that waits is one system
// call. A bit may remain set after its thread has left. It must not be clear while its thread sleeps, so a waker that
// clears a bit increments the futex word afterwards:
//
//   waiter    reads the word ──▶ sets its bit ──▶ sleeps, if the word is the same
//   waker     clears the bit ──▶ increments the word ──▶ wakes; sets the bit again if a thread was there
//
// If the waiter set its bit before the waker cleared it, the waiter has also read the word before the increment: it
// does not fall asleep, and sets its bit again.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "gate/agent.h"
#include "platform/futex.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// Number of ages. Waits of more than 51 s have the same age.
inline constexpr int kTurnAges = 12;
inline constexpr std::uint32_t kAllTurns = (1U << kTurnAges) - 1;
/// Bit of threads that wait for something else than the allowance: a pace, a memory order.
inline constexpr std::uint32_t kWaitsForNoTurn = 1U << kTurnAges;

/// The bit of a thread that has waited this long: less than 1 slice, 1, 2 to 3, 4 to 7, ..., 1,024 and more.
constexpr std::uint32_t TurnBit(Duration waited) {
  const auto slices = static_cast<std::uint64_t>(std::max(waited, Duration{0}) / kWaitSlice);
  return 1U << std::min(static_cast<int>(std::bit_width(slices)), kTurnAges - 1);
}

/// The longest sleep of a thread that has waited this long. A crowd's threads wait for seconds each: with kWaitSlice
/// alone, a thousand of them would keep two processors busy with waking up. An eighth of its wait makes a thread's bit
/// at most an eighth too young.
constexpr Duration WaitSlice(Duration waited) { return std::clamp(waited / 8, kWaitSlice, kWaitSliceMax); }

/// Sets the bit of a thread that will sleep with it. To be called after the thread has read the futex word.
inline void NoteTurn(proto::VgpuRegion& region, std::uint32_t bit) {
  if ((region.waiting_ages.load(std::memory_order_seq_cst) & bit) == 0)
    region.waiting_ages.fetch_or(bit, std::memory_order_seq_cst);
}

/// Wakes the thread whose turn it is, if one waits. `wake`: FutexWakeOne, or the replacement of a test.
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
  wake(region.wake_word, kAllTurns);  // agents of protocol versions before 1.8 set no bits
}
inline void WakeNext(proto::VgpuRegion& region) { WakeNext(region, &platform::FutexWakeOne); }

}  // namespace weir::gate
