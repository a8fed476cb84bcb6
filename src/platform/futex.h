// SPDX-License-Identifier: Apache-2.0
// Futexes on memory shared between processes. Every wait has a timeout.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.h"

namespace weir::platform {

/// Returns when woken, when the word no longer holds `expected`, after `timeout`, or spuriously.
void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration timeout);
/// Wakes all threads that wait on the word, in any process.
void FutexWakeAll(std::atomic<std::uint32_t>& word);

}  // namespace weir::platform
