// SPDX-License-Identifier: Apache-2.0
// Both pumps, with rings and an arena at each end, and between them a pipe that takes and returns as few bytes as a
// test wants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/shared_memory.h"
#include "proto/opencl_messages.h"
#include "remote/pump.h"

namespace weir::testing {

inline constexpr std::uint64_t kArenaBytes = 1 << 20;

/// One direction of a connection: a pipe with a bounded capacity that returns a bounded number of bytes at a time.
class Pipe final : public net::Stream {
 public:
  explicit Pipe(std::size_t room = 1 << 16, std::size_t at_a_time = SIZE_MAX) : room_(room), at_a_time_(at_a_time) {}

  Result<std::size_t> TrySend(std::span<const iovec> parts) override {
    const std::lock_guard lock(mutex_);
    if (closed_) return Fail(Errc::kUnavailable, "closed");
    std::size_t taken = 0;
    for (const iovec& part : parts) {
      const std::size_t n = std::min({part.iov_len, room_ - bytes_.size(), at_a_time_ - std::min(taken, at_a_time_)});
      const auto* from = static_cast<const std::byte*>(part.iov_base);
      bytes_.insert(bytes_.end(), from, from + n);
      taken += n;
      if (n < part.iov_len) break;
    }
    changed_.notify_all();
    return taken;
  }
  Result<std::size_t> TryReceive(std::span<std::byte> into) override {
    const std::lock_guard lock(mutex_);
    const std::size_t n = std::min({into.size(), bytes_.size(), at_a_time_});
    if (n == 0 && closed_) return Fail(Errc::kUnavailable, "closed");
    std::copy_n(bytes_.begin(), n, into.begin());
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(n));
    changed_.notify_all();
    return n;
  }
  bool AwaitSend(Duration timeout) override {
    return Await(timeout, [this] { return bytes_.size() < room_; });
  }
  bool AwaitReceive(Duration timeout) override {
    return Await(timeout, [this] { return !bytes_.empty(); });
  }
  void Shutdown() override {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] const std::string& peer() const override { return peer_; }
  [[nodiscard]] const std::string& peer_name() const override { return peer_; }

  void Put(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

 private:
  template <typename Until>
  bool Await(Duration timeout, Until until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return closed_ || until(); });
  }
  const std::size_t room_, at_a_time_;
  const std::string peer_ = "pipe";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::byte> bytes_;
  bool closed_ = false;
};

class Lines {
 public:
  explicit Lines(opencl::Side pump_is) {
    auto rings = platform::MakeSharedRegion("test-rings", opencl::kRingsBytes);
    EXPECT_TRUE(rings);
    line.channel = std::move(*opencl::MapChannel(rings->fd.get(), pump_is));
    other = std::move(*opencl::MapChannel(
        rings->fd.get(), pump_is == opencl::Side::kClient ? opencl::Side::kExecutor : opencl::Side::kClient));
    auto arena = platform::MakeSharedRegion("test-arena", kArenaBytes);
    EXPECT_TRUE(arena);
    line.arena = std::move(arena->mapping);
    auto seen = platform::MapForeignRegion(arena->fd.get(), kArenaBytes);
    EXPECT_TRUE(seen);
    seen_ = std::move(*seen);
    line.arena_file = std::move(arena->fd);
  }
  /// The consumers of the rings are asleep.
  void Sleeps() {
    for (int ring = 0; ring < 2; ++ring) line.channel.control.As<opencl::RingControl>()[ring].consumer_sleeps = 1;
  }
  /// The arena as the process at the other end of the rings sees it: mapped at another address.
  std::byte* arena() { return seen_.As<std::byte>(); }

  remote::Line line;
  opencl::Channel other;

 private:
  platform::Mapping seen_;
};

inline void SendTo(opencl::Channel& channel, const std::vector<std::byte>& message) {
  std::byte* at = channel.out.Reserve(message.size());
  while (at == nullptr) {
    channel.out.WaitForRoom(message.size(), milliseconds(20));
    at = channel.out.Reserve(message.size());
  }
  std::memcpy(at, message.data(), message.size());
  channel.out.Send(message.size());
}

inline std::vector<std::byte> ReceiveFrom(opencl::Channel& channel) {
  static thread_local std::vector<std::byte> scratch(proto::cl::kMessageBytesMax);
  for (int look = 0; look < 500; ++look) {
    const auto message = channel.in.Next(scratch);
    EXPECT_TRUE(message);
    if (!message->empty()) return {message->begin(), message->end()};
    channel.in.Wait(milliseconds(20));
  }
  ADD_FAILURE() << "nothing came within 10 s";
  return {};
}

/// The outgoing pump of one side, a stream, and the incoming pump of the other side.
struct Road {
  explicit Road(remote::OutPump::Side side, std::size_t room = 1 << 16, std::size_t at_a_time = SIZE_MAX)
      : from(side == remote::OutPump::Side::kClients ? opencl::Side::kExecutor : opencl::Side::kClient),
        to(side == remote::OutPump::Side::kClients ? opencl::Side::kClient : opencl::Side::kExecutor),
        pipe(room, at_a_time),
        out(from.line, pipe, side),
        sink(to.line),
        in(to.line.stop, pipe),
        sender([this] { sent = out.Run([this] { return alive.load(); }, [this] { between(); }); }),
        receiver([this] { received = in.Run(sink); }) {}
  ~Road() { End(); }
  void End() {
    from.line.stop = to.line.stop = true;
    from.line.channel.in.Interrupt();
    pipe.Shutdown();
    if (sender.joinable()) sender.join();
    if (receiver.joinable()) receiver.join();
  }

  Lines from, to;
  Pipe pipe;
  remote::OutPump out;
  remote::LineSink sink;
  remote::InPump in;
  std::atomic<bool> alive{true};
  std::function<void()> between;
  Status sent = Ok(), received = Ok();
  std::thread sender, receiver;
};

}  // namespace weir::testing
