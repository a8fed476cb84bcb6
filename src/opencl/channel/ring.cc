// SPDX-License-Identifier: Apache-2.0
#include "opencl/channel/ring.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "platform/futex.h"

namespace weir::opencl {

Result<RingMapping> RingMapping::Map(int fd, std::uint64_t offset, std::uint64_t bytes) {
  void* place = ::mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return platform::ErrnoError("finding room for a ring", errno);
  RingMapping mapping;
  mapping.data_ = static_cast<std::byte*>(place);
  mapping.bytes_ = bytes;
  for (int copy = 0; copy < 2; ++copy) {
    void* at = mapping.data_ + static_cast<std::uint64_t>(copy) * bytes;
    if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset)) == MAP_FAILED)
      return platform::ErrnoError("mapping a ring", errno);
  }
  return mapping;
}

RingMapping& RingMapping::operator=(RingMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

RingMapping::~RingMapping() {
  if (data_ != nullptr) ::munmap(data_, 2 * bytes_);
}

// -- Producer --------------------------------------------------------------------------------------------------------

std::uint64_t RingProducer::Room() {
  const std::uint64_t used = produced_ - control_->consumed.load(std::memory_order_acquire);
  if (used > data_.bytes()) broken_ = true;
  return broken_ ? 0 : data_.bytes() - used;
}

std::byte* RingProducer::Reserve(std::size_t bytes) {
  if (Room() < proto::cl::Padded(bytes)) return nullptr;
  return data_.data() + produced_ % data_.bytes();
}

void RingProducer::Publish(std::size_t bytes) {
  produced_ += proto::cl::Padded(bytes);
  // Sequentially consistent here and in the consumer: either the consumer sees the message, or the producer sees that
  // the consumer sleeps.
  control_->produced.store(produced_, std::memory_order_seq_cst);
}

void RingProducer::Ring() {
  if (control_->consumer_sleeps.load(std::memory_order_seq_cst) == 0) return;
  control_->consumer_sleeps.store(0, std::memory_order_relaxed);
  platform::FutexWakeAll(control_->consumer_sleeps);
  ++wakes_;
}

void RingProducer::WaitForRoom(std::size_t bytes, Duration timeout) {
  Ring();  // Wakes the consumer for messages published without a wake-up.
  control_->producer_waits.store(1, std::memory_order_seq_cst);
  if (Room() < proto::cl::Padded(bytes) && !broken_) platform::FutexWait(control_->producer_waits, 1, timeout);
  control_->producer_waits.store(0, std::memory_order_relaxed);
}

// -- Consumer --------------------------------------------------------------------------------------------------------

Result<std::span<const std::byte>> RingConsumer::Next(std::span<std::byte> into) {
  const std::uint64_t there = control_->produced.load(std::memory_order_acquire) - consumed_;
  if (there == 0) return std::span<const std::byte>{};
  if (there > data_.bytes()) return Fail(Errc::kProtocol, "the ring contains more than its size");
  const std::byte* at = data_.data() + consumed_ % data_.bytes();
  proto::cl::Header header;
  if (there < sizeof header) return Fail(Errc::kProtocol, "a message of less than a header");
  std::memcpy(&header, at, sizeof header);
  const std::size_t most = std::min(into.size(), proto::cl::kMessageBytesMax);
  if (header.size < sizeof header || header.size > most || proto::cl::Padded(header.size) > there)
    return Fail(Errc::kProtocol,
                "a message of " + std::to_string(header.size) + " bytes, where " + std::to_string(there) + " are");
  std::memcpy(into.data(), at, header.size);
  // The header that was checked replaces the copied one, because the producer may have changed the size meanwhile.
  std::memcpy(into.data(), &header, sizeof header);
  consumed_ += proto::cl::Padded(header.size);
  control_->consumed.store(consumed_, std::memory_order_seq_cst);
  if (control_->producer_waits.load(std::memory_order_seq_cst) != 0) {
    control_->producer_waits.store(0, std::memory_order_relaxed);
    platform::FutexWakeAll(control_->producer_waits);
  }
  return std::span<const std::byte>(into.data(), header.size);
}

bool RingConsumer::Wait(Duration timeout) {
  const unsigned rounds = spin_.Rounds();
  for (unsigned round = 0; round < rounds; ++round) {
    if (!Empty()) return spin_.Came(round), true;
    Pause();
  }
  if (rounds > 0) spin_.DidNotCome();
  const bool interrupted = control_->consumer_sleeps.exchange(1, std::memory_order_seq_cst) == kInterrupted;
  const bool empty = control_->produced.load(std::memory_order_seq_cst) == consumed_;
  if (empty && !interrupted) platform::FutexWait(control_->consumer_sleeps, 1, timeout);
  control_->consumer_sleeps.store(0, std::memory_order_relaxed);
  return !Empty();
}

void RingConsumer::Interrupt() {
  control_->consumer_sleeps.store(kInterrupted, std::memory_order_seq_cst);
  platform::FutexWakeAll(control_->consumer_sleeps);
}

// -- Both sides -------------------------------------------------------------------------------------------------------

Result<Channel> MapChannel(int fd, Side side) {
  Channel channel;
  // The whole object is checked for its seals and size, and mapped. The data of each ring is then mapped twice more.
  WEIR_TRY(channel.control, platform::MapForeignRegion(fd, kRingsBytes));
  auto* controls = channel.control.As<RingControl>();
  WEIR_TRY(RingMapping commands, RingMapping::Map(fd, kControlBytes, kRingBytes));
  WEIR_TRY(RingMapping replies, RingMapping::Map(fd, kControlBytes + kRingBytes, kRingBytes));
  const bool client = side == Side::kClient;
  channel.out = RingProducer(&controls[client ? 0 : 1], std::move(client ? commands : replies));
  channel.in = RingConsumer(&controls[client ? 1 : 0], std::move(client ? replies : commands));
  return channel;
}

}  // namespace weir::opencl
