// SPDX-License-Identifier: Apache-2.0
// Carries one connection's messages between a ring and a stream, and the parts of the arena that they refer to. A relay
// and a portal have two each, on a thread of its own: out of the ring, and into it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "net/stream.h"
#include "opencl/channel/ring.h"
#include "proto/network_frames.h"

namespace weir::remote {

/// A connection's memory here, and how it ends.
struct Line {
  opencl::Channel channel;
  platform::Mapping arena;
  std::atomic<bool> stop{false};
};

/// What one direction has carried. Whoever runs the pump may read it.
struct Traffic {
  std::uint64_t frames = 0, messages = 0, arena_bytes = 0, sends = 0;
};

/// From the ring to the stream.
class OutPump {
 public:
  /// What a message means for the arena. kAhead: a client's, whose contents go before it. kArrived: an executor's,
  /// whose Arrived are replaced by what they name.
  enum class Side { kClients, kExecutors };
  OutPump(Line& line, net::Stream& stream, Side side);

  /// Until `line.stop`, or the stream ends, or the ring's other side does (`alive` says; it is asked when there is
  /// nothing to do). What was in the ring then has been sent.
  Status Run(const std::function<bool()>& alive);
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  /// Takes from the ring what fits one send. False: there was nothing.
  Result<bool> Gather();
  Status Note(std::span<const std::byte> message, bool& passed_on);
  Status AddArena(std::uint64_t offset, std::uint64_t size);
  void CloseMessages();
  Status Send();

  Line& line_;
  net::Stream& stream_;
  const Side side_;
  Traffic traffic_;
  std::vector<std::byte> messages_;               // room for kMessagesBytesMax
  std::size_t used_ = 0, framed_ = 0;             // of it; up to `framed_` it is in `parts_`
  std::vector<proto::net::FrameHeader> headers_;  // never reallocated while `parts_` points into it
  std::vector<iovec> parts_;
};

/// From the stream to the ring.
class InPump {
 public:
  /// `translate` may change a message before it is handed on; null: as it came.
  using Translate = std::function<void(std::span<std::byte> message)>;
  InPump(Line& line, net::Stream& stream, Translate translate = {});

  /// Until `line.stop` or the stream ends (kUnavailable). kProtocol: what came is no frame, or is outside the arena.
  Status Run();
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  Status Fill(std::size_t wanted);
  Status TakeMessages(std::size_t bytes);
  Status TakeArena(std::uint64_t offset, std::size_t bytes);
  Status Deliver(std::span<std::byte> message);

  Line& line_;
  net::Stream& stream_;
  const Translate translate_;
  Traffic traffic_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what has come and was not taken
};

}  // namespace weir::remote
