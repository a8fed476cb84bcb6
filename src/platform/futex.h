// SPDX-License-Identifier: Apache-2.0
// Futexes on memory shared between processes. Every wait has a timeout.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace weir::platform {

/// All bits: any call of FutexWakeOne may wake this waiter.
inline constexpr std::uint32_t kFutexAnyBits = 0xFFFF'FFFF;

/// Returns when woken, when the word no longer holds `expected`, after `timeout`, or spuriously. `bits`: not 0; which
/// calls of FutexWakeOne may wake this thread.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout,
               std::uint32_t bits = kFutexAnyBits);
/// Wakes the thread that has waited longest, in any process, of those that have one of these bits. False: there is
/// none.
bool FutexWakeOne(std::atomic<std::uint32_t>& word, std::uint32_t bits);
/// Wakes all threads that wait on the word, in any process.
void FutexWakeAll(std::atomic<std::uint32_t>& word);

}  // namespace weir::platform
