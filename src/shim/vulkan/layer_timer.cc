// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_timer.h"

#include <algorithm>

namespace weir::shim {

QueueTimer* QueueTimer::Make(Device& device, const Queue& queue) {
  constexpr VkQueueFlags kResetsQueries = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  if (queue.family >= Device::kFamilies || device.set_loader_data == nullptr) return nullptr;
  const QueueFamily& family = device.families[queue.family];
  if (family.timestamp_bits == 0 || (family.flags & kResetsQueries) == 0) return nullptr;
#define WEIR_CHECK_THERE(name) \
  if (device.next.name == nullptr) return nullptr;
  WEIR_VULKAN_CALLED(WEIR_CHECK_THERE)
#undef WEIR_CHECK_THERE
  std::unique_ptr<QueueTimer> made(new (std::nothrow) QueueTimer(device));
  if (made == nullptr) return nullptr;
  if (made->Prepare(queue)) return made.release();
  made->Destroy();
  return nullptr;
}

bool QueueTimer::Prepare(const Queue& queue) {
  const std::uint32_t bits = device_.families[queue.family].timestamp_bits;
  mask_ = bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = queue.family;
  if (device_.next.CreateCommandPool(device_.handle, &pool, nullptr, &pool_) != VK_SUCCESS) return false;
  VkQueryPoolCreateInfo queries{};
  queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = 2 * kSlots;
  if (device_.next.CreateQueryPool(device_.handle, &queries, nullptr, &queries_) != VK_SUCCESS) return false;
  VkCommandBufferAllocateInfo buffers{};
  buffers.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  buffers.commandPool = pool_;
  buffers.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  buffers.commandBufferCount = 2 * kSlots;
  if (device_.next.AllocateCommandBuffers(device_.handle, &buffers, buffers_.data()) != VK_SUCCESS) return false;
  for (std::uint32_t i = 0; i < 2 * kSlots; ++i) {
    if (device_.set_loader_data(device_.handle, buffers_[i]) != VK_SUCCESS) return false;
    if (!Record(i / 2, i % 2, buffers_[i])) return false;
  }
  return true;
}

/// Records the command buffer that begins (`which` 0) or ends (1) a submit. Each buffer is recorded once. It may be
/// submitted again before the device has reported the end of its earlier submit.
bool QueueTimer::Record(std::uint32_t slot, std::uint32_t which, VkCommandBuffer buffer) {
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  if (device_.next.BeginCommandBuffer(buffer, &begin) != VK_SUCCESS) return false;
  if (which == 0) device_.next.CmdResetQueryPool(buffer, queries_, 2 * slot, 2);
  const VkPipelineStageFlagBits stage =
      which == 0 ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
  device_.next.CmdWriteTimestamp(buffer, stage, queries_, 2 * slot + which);
  return device_.next.EndCommandBuffer(buffer) == VK_SUCCESS;
}

/// Called when the device is destroyed, while none of its work is in flight.
void QueueTimer::Destroy() {
  if (queries_ != VK_NULL_HANDLE) device_.next.DestroyQueryPool(device_.handle, queries_, nullptr);
  if (pool_ != VK_NULL_HANDLE) device_.next.DestroyCommandPool(device_.handle, pool_, nullptr);
  delete this;
}

bool QueueTimer::Take(VkCommandBuffer& begin, VkCommandBuffer& end) {
  const std::lock_guard lock(mutex_);
  if (under_way_ == kSlots) return false;
  begin = buffers_[std::size_t{2} * next_];
  end = buffers_[std::size_t{2} * next_ + 1];
  next_ = (next_ + 1) % kSlots;
  ++under_way_;
  return true;
}

void QueueTimer::GiveBack() {
  const std::lock_guard lock(mutex_);
  next_ = (next_ + kSlots - 1) % kSlots;
  --under_way_;
}

void QueueTimer::Read() {
  const weir_vulkan_hooks* hooks = Hooks();
  std::int64_t known_ns = 0;
  unsigned known = 0;
  {
    const std::lock_guard lock(mutex_);
    while (under_way_ > 0) {
      struct Result {
        std::uint64_t ticks = 0, available = 0;
      };
      std::array<Result, 2> results{};
      const VkResult got = device_.next.GetQueryPoolResults(
          device_.handle, queries_, 2 * oldest_, 2, sizeof results, results.data(), sizeof results[0],
          VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
      if (got != VK_SUCCESS || results[0].available == 0 || results[1].available == 0) break;
      const std::uint64_t begin = results[0].ticks & mask_, end = results[1].ticks & mask_;
      if (end == last_end_[oldest_]) break;  // the result of the slot's earlier submit
      last_end_[oldest_] = end;
      known_ns += NotCountedYet(begin, end);
      oldest_ = (oldest_ + 1) % kSlots;
      --under_way_;
      ++known;
    }
  }
  if (hooks != nullptr && known > 0) hooks->report_time(0, known, known_ns);
}

/// The part of a span that no earlier span of the device has covered. When the device's counter wraps around to zero,
/// at most one span is lost.
std::int64_t QueueTimer::NotCountedYet(std::uint64_t begin, std::uint64_t end) {
  std::uint64_t until = device_.timed_until.load(std::memory_order_relaxed);
  do {
    if (until > end && until - end > mask_ / 2) until = 0;
    if (end <= begin || end <= until) return 0;
  } while (!device_.timed_until.compare_exchange_weak(until, end, std::memory_order_relaxed));
  return static_cast<std::int64_t>(static_cast<double>(end - std::max(begin, until)) * device_.ns_of_tick);
}

void ReadTimers(Device& device) {
  const std::size_t count = device.queue_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i)
    if (QueueTimer* timer = device.queues[i].timer.load(std::memory_order_acquire)) timer->Read();
}

void DestroyTimers(Device& device) {
  const std::size_t count = device.queue_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i)
    if (QueueTimer* timer = device.queues[i].timer.exchange(nullptr)) timer->Destroy();
}

}  // namespace weir::shim
