// SPDX-License-Identifier: Apache-2.0
#include "shim/vulkan/layer_timer.h"

#include <algorithm>
#include <utility>

#include "platform/clock.h"

namespace weir::shim {

QueueTimer* QueueTimer::Make(Device& device, const Queue& queue) {
  constexpr VkQueueFlags kResetsQueries = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  if (queue.family >= Device::kFamilies || device.set_loader_data == nullptr || device.clock == nullptr) return nullptr;
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
  return Grow();
}

/// Makes a chunk of pairs. The program holds the queue's lock, which also guards the command pool.
bool QueueTimer::Grow() {
  if (!may_grow_ || chunk_count_ == kChunks) return false;
  may_grow_ = false;  // after a failure
  std::unique_ptr<Chunk> made(new (std::nothrow) Chunk);
  if (made == nullptr) return false;
  if (!Make(*made)) {
    if (made->queries != VK_NULL_HANDLE) device_.next.DestroyQueryPool(device_.handle, made->queries, nullptr);
    return false;
  }
  for (std::uint32_t i = kChunk; i-- > 0;) free_[free_count_++] = chunk_count_ * kChunk + i;
  chunks_[chunk_count_++] = std::move(made);
  return may_grow_ = true;
}

bool QueueTimer::Make(Chunk& chunk) {
  VkQueryPoolCreateInfo queries{};
  queries.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  queries.queryType = VK_QUERY_TYPE_TIMESTAMP;
  queries.queryCount = 2 * kChunk;
  if (device_.next.CreateQueryPool(device_.handle, &queries, nullptr, &chunk.queries) != VK_SUCCESS) return false;
  VkCommandBufferAllocateInfo buffers{};
  buffers.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  buffers.commandPool = pool_;
  buffers.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  buffers.commandBufferCount = 2 * kChunk;
  if (device_.next.AllocateCommandBuffers(device_.handle, &buffers, chunk.buffers.data()) != VK_SUCCESS) return false;
  for (std::uint32_t i = 0; i < 2 * kChunk; ++i) {
    if (device_.set_loader_data(device_.handle, chunk.buffers[i]) != VK_SUCCESS) return false;
    if (!Record(chunk, i / 2, i % 2)) return false;
  }
  return true;
}

/// Records the command buffer that begins (`which` 0) or ends (1) a span. Each buffer is recorded once. It may be
/// submitted again before the device has reported the end of its earlier submit.
bool QueueTimer::Record(const Chunk& chunk, std::uint32_t slot, std::uint32_t which) {
  const VkCommandBuffer buffer = chunk.buffers[2 * slot + which];
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  if (device_.next.BeginCommandBuffer(buffer, &begin) != VK_SUCCESS) return false;
  if (which == 0) device_.next.CmdResetQueryPool(buffer, chunk.queries, 2 * slot, 2);
  const VkPipelineStageFlagBits stage =
      which == 0 ? VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT : VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT;
  device_.next.CmdWriteTimestamp(buffer, stage, chunk.queries, 2 * slot + which);
  return device_.next.EndCommandBuffer(buffer) == VK_SUCCESS;
}

/// Called when the device is destroyed, while none of its work is in flight.
void QueueTimer::Destroy() {
  Read();
  unsigned rest = 0;  // of a lost device, for example
  for (std::uint32_t i = 0; i < count_; ++i) rest += 1 + SpanAt(i).unmeasured;
  if (const weir_vulkan_hooks* hooks = Hooks(); hooks != nullptr && rest > 0) hooks->report_time(0, rest, 0);
  for (std::uint32_t i = 0; i < chunk_count_; ++i)
    device_.next.DestroyQueryPool(device_.handle, chunks_[i]->queries, nullptr);
  if (pool_ != VK_NULL_HANDLE) device_.next.DestroyCommandPool(device_.handle, pool_, nullptr);
  delete this;
}

bool QueueTimer::Take(Pair& pair) {
  const std::lock_guard lock(mutex_);
  if (free_count_ == 0 && !Grow()) return false;
  const std::uint32_t slot = free_[--free_count_];
  const Chunk& chunk = *chunks_[slot / kChunk];
  pair = {chunk.buffers[2 * (slot % kChunk)], chunk.buffers[2 * (slot % kChunk) + 1]};
  SpanAt(count_++) = {.slot = slot};
  return true;
}

void QueueTimer::GiveBack(std::uint32_t pairs) {
  const std::lock_guard lock(mutex_);
  for (; pairs > 0; --pairs) free_[free_count_++] = SpanAt(--count_).slot;
}

void QueueTimer::NoteUnmeasured() {
  const std::lock_guard lock(mutex_);
  const weir_vulkan_hooks* hooks = Hooks();
  // If all spans have become known meanwhile, no other one would report it.
  if (count_ > 0) ++SpanAt(count_ - 1).unmeasured;
  if (hooks != nullptr) hooks->report_time(1, count_ > 0 ? 0 : 1, 0);
}

/// The result of the earliest span. False: the device has not reported it.
bool QueueTimer::TakeResult(std::uint32_t slot, std::uint64_t& begin, std::uint64_t& end) {
  struct Result {
    std::uint64_t ticks = 0, available = 0;
  };
  Chunk& chunk = *chunks_[slot / kChunk];
  const std::uint32_t place = slot % kChunk;
  std::array<Result, 2> results{};
  const VkResult got = device_.next.GetQueryPoolResults(device_.handle, chunk.queries, 2 * place, 2, sizeof results,
                                                        results.data(), sizeof results[0],
                                                        VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
  if (got != VK_SUCCESS || results[0].available == 0 || results[1].available == 0) return false;
  begin = results[0].ticks & mask_;
  end = results[1].ticks & mask_;
  if (end == chunk.last_end[place]) return false;  // the result of the slot's earlier submit
  chunk.last_end[place] = end;
  return true;
}

void QueueTimer::Read() {
  constexpr double kNew = 0.125;
  std::int64_t known_ns = 0;
  unsigned known = 0;
  {
    const std::lock_guard lock(mutex_);
    std::uint64_t begin = 0, end = 0;
    while (count_ > 0 && TakeResult(SpanAt(0).slot, begin, end)) {
      const Span span = SpanAt(0);
      const double span_ns = std::max(device_.clock->Between(begin, end), 0.0);
      mean_ns_ += (mean_ns_ == 0 ? 1 : kNew) * (span_ns - mean_ns_);
      known_ns += device_.clock->Charge(begin, end, mean_ns_ * span.unmeasured, platform::CoarseNowNs());
      known += 1 + span.unmeasured;
      free_[free_count_++] = span.slot;
      first_ = (first_ + 1) % kSpans;
      --count_;
    }
  }
  const weir_vulkan_hooks* hooks = Hooks();
  if (hooks != nullptr && known > 0) hooks->report_time(0, known, known_ns);
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
