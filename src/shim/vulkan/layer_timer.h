// SPDX-License-Identifier: Apache-2.0
// Timestamps around the submits to one queue. Each measured submit begins and ends with a command buffer of the layer's
// own. Results are read later, without waiting.
//
//   the program's submit:  [ A B ]  [ C ]              as the next layer gets it:  [ begin A B ]  [ C end ]
//
// A submit's arrays are copied. Its semaphores, fences and chained structures are passed on unchanged.
#pragma once

#include <array>
#include <memory>

#include "shim/vulkan/layer.h"

namespace weir::shim {

/// A copy of a submit with the layer's command buffers in it. `Info` is VkSubmitInfo or VkSubmitInfo2.
template <typename Info, typename Buffer>
struct TimedSubmit {
  std::unique_ptr<Info[]> infos;
  std::unique_ptr<Buffer[]> first_buffers, last_buffers;
};

class QueueTimer {
 public:
  /// Null: the queue has no timestamps, or there is no memory.
  static QueueTimer* Make(Device& device, const Queue& queue);
  void Destroy();

  /// Takes a pair of command buffers for the next submit. False: all pairs are in flight.
  bool Take(VkCommandBuffer& begin, VkCommandBuffer& end);
  /// Returns the pair that was taken last, because the driver refused the submit.
  void GiveBack();
  /// Reports the GPU time of the submits whose timestamps are available.
  void Read();

 private:
  static constexpr std::uint32_t kSlots = 32;
  explicit QueueTimer(Device& device) : device_(device) {}
  bool Prepare(const Queue& queue);
  bool Record(std::uint32_t slot, std::uint32_t which, VkCommandBuffer buffer);
  std::int64_t NotCountedYet(std::uint64_t begin, std::uint64_t end);

  Device& device_;
  std::mutex mutex_;  // Read is called by threads that wait for work, beside the queue's own thread
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkQueryPool queries_ = VK_NULL_HANDLE;
  std::array<VkCommandBuffer, std::size_t{2} * kSlots> buffers_{};
  std::array<std::uint64_t, kSlots> last_end_{};  // results stay until the device resets them
  std::uint64_t mask_ = 0;                        // valid bits of a timestamp
  std::uint32_t next_ = 0, oldest_ = 0, under_way_ = 0;
};

}  // namespace weir::shim
