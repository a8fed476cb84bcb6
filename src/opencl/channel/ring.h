// SPDX-License-Identifier: Apache-2.0
// Two rings of messages in one sealed memory object, one each way between a client and its executor
// (docs/protocol/opencl.md). Neither side believes what the other wrote: positions are checked, messages are copied
// out before they are looked at.
//
//   page 0:  control of ring 0 | control of ring 1
//   then:    data of ring 0, data of ring 1; each is mapped twice in a row, so that no message is cut
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "opencl/channel/adaptive_spin.h"
#include "platform/shared_memory.h"
#include "proto/opencl_codec.h"

namespace weir::opencl {

inline constexpr std::uint64_t kRingBytes = 1ULL << 20;

/// Shared. Each field has one writer.
struct RingControl {
  alignas(64) std::atomic<std::uint64_t> produced;         // producer
  alignas(64) std::atomic<std::uint64_t> consumed;         // consumer
  alignas(64) std::atomic<std::uint32_t> consumer_sleeps;  // futex word; set by the consumer, cleared by either; or
                                                           // kInterrupted
  std::atomic<std::uint32_t> producer_waits;               // futex word; set by the producer, cleared by either
};
/// A consumer's wait is to end though nothing came.
inline constexpr std::uint32_t kInterrupted = 2;
inline constexpr std::size_t kControlBytes = 4096;
static_assert(2 * sizeof(RingControl) <= kControlBytes);

/// A ring's memory, mapped here.
class RingMapping {
 public:
  RingMapping() = default;
  RingMapping(RingMapping&& other) noexcept { *this = std::move(other); }
  RingMapping& operator=(RingMapping&& other) noexcept;
  ~RingMapping();

  static Result<RingMapping> Map(int fd, std::uint64_t offset, std::uint64_t bytes);
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;  // 2 * bytes_ are mapped
  std::uint64_t bytes_ = 0;
};

class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(RingControl* control, RingMapping data) : control_(control), data_(std::move(data)) {}

  /// Room for a message of `bytes`, to be filled and then sent; null when there is none now.
  std::byte* Reserve(std::size_t bytes);
  /// Publishes what was reserved, and wakes the consumer if it sleeps.
  void Send(std::size_t bytes) {
    Publish(bytes);
    Ring();
  }
  /// Publishes it and wakes nobody: a consumer that sleeps sees it when it is rung for, or looks by itself.
  void Publish(std::size_t bytes);
  /// Wakes the consumer if it sleeps.
  void Ring();
  /// Until there may be room for `bytes`, or `timeout` is over.
  void WaitForRoom(std::size_t bytes, Duration timeout);
  /// How often a consumer that slept has been woken.
  [[nodiscard]] std::uint64_t wakes() const { return wakes_; }
  /// The other side wrote a position that can't be.
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::uint64_t Room();

  RingControl* control_ = nullptr;
  RingMapping data_;
  std::uint64_t produced_ = 0;
  std::uint64_t wakes_ = 0;
  bool broken_ = false;
};

class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(RingControl* control, RingMapping data) : control_(control), data_(std::move(data)) {}

  /// The next message, header included, copied to `into`; empty when there is none. It has at most kMessageBytesMax
  /// bytes, even where `into` is larger. kProtocol: what lies there is no message.
  Result<std::span<const std::byte>> Next(std::span<std::byte> into);
  [[nodiscard]] bool Empty() const { return control_->produced.load(std::memory_order_acquire) == consumed_; }
  /// Until there is something, or `timeout` is over: spins for as long as that pays, then sleeps. False: nothing came.
  bool Wait(Duration timeout);
  /// Ends a Wait from another thread of this process, or the next one.
  void Interrupt();

 private:
  RingControl* control_ = nullptr;
  RingMapping data_;
  std::uint64_t consumed_ = 0;
  AdaptiveSpin spin_;
};

/// One side's ends, and the memory under them.
struct Channel {
  platform::Mapping control;
  RingProducer out;
  RingConsumer in;
};

enum class Side { kClient, kExecutor };
inline constexpr std::uint64_t kRingsBytes = kControlBytes + 2 * kRingBytes;
/// Maps one side's ends of the rings in `fd`, which is sealed and has kRingsBytes.
Result<Channel> MapChannel(int fd, Side side);

}  // namespace weir::opencl
