// SPDX-License-Identifier: Apache-2.0
// Two rings of messages in one sealed memory object, one for each direction between a client and its executor
// (docs/protocol/opencl.md). Neither side trusts the other: positions are checked, and messages are copied before they
// are examined.
//
//   page 0:  control of ring 0 | control of ring 1
//   then:    data of ring 0, data of ring 1; each is mapped twice in a row, so that every message is contiguous
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

/// Shared memory. Each field has one writer, unless noted.
struct RingControl {
  alignas(64) std::atomic<std::uint64_t> produced;         // producer
  alignas(64) std::atomic<std::uint64_t> consumed;         // consumer
  alignas(64) std::atomic<std::uint32_t> consumer_sleeps;  // futex word: 1 while the consumer sleeps, 0, or
                                                           // kInterrupted; set by the consumer, cleared by either
  std::atomic<std::uint32_t> producer_waits;               // futex word; set by the producer, cleared by either
};
/// Value of consumer_sleeps that ends the consumer's wait without a message.
inline constexpr std::uint32_t kInterrupted = 2;
inline constexpr std::size_t kControlBytes = 4096;
static_assert(2 * sizeof(RingControl) <= kControlBytes);

/// The double mapping of a ring's data.
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

  /// Returns space for a message of `bytes` bytes, to be filled and then sent. Null: the ring is full.
  std::byte* Reserve(std::size_t bytes);
  /// Publishes the reserved message and wakes the consumer if it sleeps.
  void Send(std::size_t bytes) {
    Publish(bytes);
    Ring();
  }
  /// Publishes the reserved message without waking the consumer. A sleeping consumer sees it after Ring, or when its
  /// wait times out.
  void Publish(std::size_t bytes);
  /// Wakes the consumer if it sleeps.
  void Ring();
  /// Waits until there may be room for `bytes`, at most for `timeout`.
  void WaitForRoom(std::size_t bytes, Duration timeout);
  /// How often a sleeping consumer was woken.
  [[nodiscard]] std::uint64_t wakes() const { return wakes_; }
  /// Whether the other side wrote an impossible position.
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

  /// Copies the next message, header included, to `into`; empty if there is none. A message has at most
  /// kMessageBytesMax bytes, even if `into` is larger. kProtocol: malformed message.
  Result<std::span<const std::byte>> Next(std::span<std::byte> into);
  [[nodiscard]] bool Empty() const { return control_->produced.load(std::memory_order_acquire) == consumed_; }
  /// Waits for a message, at most for `timeout`: spins as long as that pays, then sleeps. False: no message came.
  bool Wait(Duration timeout);
  /// Ends the current or the next Wait. May be called from another thread of this process.
  void Interrupt();

 private:
  RingControl* control_ = nullptr;
  RingMapping data_;
  std::uint64_t consumed_ = 0;
  AdaptiveSpin spin_;
};

/// The two ring ends of one side, and the memory below them.
struct Channel {
  platform::Mapping control;
  RingProducer out;
  RingConsumer in;
};

enum class Side { kClient, kExecutor };
inline constexpr std::uint64_t kRingsBytes = kControlBytes + 2 * kRingBytes;
/// Maps one side's ring ends in `fd`, which must be sealed and have kRingsBytes.
Result<Channel> MapChannel(int fd, Side side);

}  // namespace weir::opencl
