// SPDX-License-Identifier: Apache-2.0
// Timestamps around the submits to one queue. Each measured submit begins and ends with a command buffer of the layer's
// own. Results are read later, without waiting.
//
//   the program's submit:  [ A B ]  [ C ]  [ waits: D ]
//   as the next layer gets it:  [ begin A B ]  [ C end ]  [ waits: begin D end ]
//
// A part that waits for a semaphore is a span of its own, so that the wait is not charged. A submit's arrays are
// copied. Its semaphores, fences and chained structures are passed on unchanged.
//
// While as many spans are under way as a queue may have, submits are not measured. They are taken to run right after
// the last span, for as long as spans take on average.
#pragma once

#include <array>
#include <memory>

#include "shim/vulkan/layer.h"

namespace weir::shim {

/// A copy of a submit with the layer's command buffers in it. `Info` is VkSubmitInfo or VkSubmitInfo2.
template <typename Info, typename Buffer>
struct TimedSubmit {
  std::unique_ptr<Info[]> infos;
  std::unique_ptr<Buffer[]> buffers;  // those of all parts
  std::uint32_t spans = 0;            // 0: the submit is passed on as it is
  bool full = false;                  // because too many spans are under way
};

class QueueTimer {
 public:
  /// Null: the queue has no timestamps, or there is no memory.
  static QueueTimer* Make(Device& device, const Queue& queue);
  /// Reports all that is under way as known, without time for what has no result.
  void Destroy();

  struct Pair {
    VkCommandBuffer begin = VK_NULL_HANDLE, end = VK_NULL_HANDLE;
  };
  /// Takes a pair of command buffers for a span of the next submit. False: all pairs are in flight.
  bool Take(Pair& pair);
  /// Returns the pairs that were taken last, because the driver refused the submit.
  void GiveBack(std::uint32_t pairs);
  /// The driver has accepted a submit that found no pair.
  void NoteUnmeasured();
  /// Reports the GPU time of the submits whose timestamps are available.
  void Read();

 private:
  static constexpr std::uint32_t kChunk = 32, kChunks = 32, kSpans = kChunk * kChunks;
  /// Pairs are made in chunks, because most programs need few.
  struct Chunk {
    VkQueryPool queries = VK_NULL_HANDLE;
    std::array<VkCommandBuffer, std::size_t{2} * kChunk> buffers{};
    std::array<std::uint64_t, kChunk> last_end{};  // results stay until the device resets them
  };
  struct Span {
    std::uint32_t slot = 0;
    std::uint32_t unmeasured = 0;  // submits that followed it and found no pair
  };

  explicit QueueTimer(Device& device) : device_(device) {}
  bool Prepare(const Queue& queue);
  bool Grow();
  bool Make(Chunk& chunk);
  bool Record(const Chunk& chunk, std::uint32_t slot, std::uint32_t which);
  bool TakeResult(std::uint32_t slot, std::uint64_t& begin, std::uint64_t& end);
  Span& SpanAt(std::uint32_t place) { return spans_[(first_ + place) % kSpans]; }

  Device& device_;
  std::uint64_t mask_ = 0;  // valid bits of a timestamp
  std::mutex mutex_;        // Read is called by threads that wait for work, beside the queue's own thread
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::array<std::unique_ptr<Chunk>, kChunks> chunks_{};
  std::uint32_t chunk_count_ = 0;
  bool may_grow_ = true;
  std::array<std::uint32_t, kSpans> free_{};  // the slots of free pairs
  std::uint32_t free_count_ = 0;
  std::array<Span, kSpans> spans_{};  // a ring of those under way, in the order of their submits
  std::uint32_t first_ = 0, count_ = 0;
  double mean_ns_ = 0;  // of the last spans
};

}  // namespace weir::shim
