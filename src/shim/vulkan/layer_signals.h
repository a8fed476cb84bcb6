// SPDX-License-Identifier: Apache-2.0
// Which values of timeline semaphores the submits of a device signal. A wait for a value that no submit signals yet is
// one for a later call of the program: it may never end, and the device may be idle meanwhile.
#pragma once

#include <vulkan/vulkan.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace weir::shim {

class Signals {
 public:
  /// Called for a submit, once it has passed the gate. `chain`: the structures that follow it.
  void Note(const void* chain, std::uint32_t count, const VkSemaphore* semaphores) {
    for (auto* at = static_cast<const VkBaseInStructure*>(chain); at != nullptr; at = at->pNext) {
      if (at->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) continue;
      const auto& values = *reinterpret_cast<const VkTimelineSemaphoreSubmitInfo*>(at);
      for (std::uint32_t i = 0; i < std::min(count, values.signalSemaphoreValueCount); ++i)
        Note(semaphores[i], values.pSignalSemaphoreValues[i]);
    }
  }
  void Note(VkSemaphore semaphore, std::uint64_t value) {
    if (value == 0) return;  // a binary semaphore has no value
    const std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(semaphore);
    entry = {semaphore, entry.semaphore == semaphore ? std::max(entry.value, value) : value};
  }
  /// The program destroys the semaphore, and another one may get its handle.
  void Forget(VkSemaphore semaphore) {
    const std::lock_guard lock(mutex_);
    if (EntryOf(semaphore).semaphore == semaphore) EntryOf(semaphore) = {};
  }
  /// Whether submits signal what is waited for. False also of a semaphore whose entry another one has taken.
  bool Signal(const VkSemaphoreWaitInfo& wait) {
    const std::lock_guard lock(mutex_);
    const auto is_signalled = [&](std::uint32_t i) {
      const Entry& entry = EntryOf(wait.pSemaphores[i]);
      return entry.semaphore == wait.pSemaphores[i] && entry.value >= wait.pValues[i];
    };
    const bool any = (wait.flags & VK_SEMAPHORE_WAIT_ANY_BIT) != 0;
    for (std::uint32_t i = 0; i < wait.semaphoreCount; ++i)
      if (is_signalled(i) == any) return any;
    return !any;
  }

 private:
  struct Entry {
    VkSemaphore semaphore = VK_NULL_HANDLE;
    std::uint64_t value = 0;
  };
  Entry& EntryOf(VkSemaphore semaphore) {
    const auto number = (std::uint64_t)semaphore;  // NOLINT: a pointer or a number
    return entries_[(number * 0x9E3779B97F4A7C15 >> 32) % entries_.size()];
  }

  std::mutex mutex_;
  std::array<Entry, 256> entries_{};
};

}  // namespace weir::shim
