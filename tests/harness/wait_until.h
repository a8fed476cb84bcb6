// SPDX-License-Identifier: Apache-2.0
// Waiting for another thread or process: for a condition, with a deadline that only a broken program reaches.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace weir::testing {

/// Far longer than any operation takes, also under a sanitizer on a busy machine.
inline constexpr std::chrono::seconds kPatience{20};

/// Whether `condition` came true within kPatience.
inline bool WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace weir::testing
