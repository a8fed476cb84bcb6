// SPDX-License-Identifier: Apache-2.0
// Carries one connection's messages between a ring and a stream, and the parts of the arena that they refer to. A relay
// and a portal have two each, on a thread of its own: out of the ring, and into it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/stream.h"
#include "opencl/channel/ring.h"
#include "opencl/log/object_log.h"
#include "proto/network_frames.h"
#include "remote/keep_awake.h"

namespace weir::remote {

/// A connection's memory here, and how it ends.
struct Line {
  opencl::Channel channel;
  platform::Mapping arena;
  platform::Fd arena_file{};    // what is mapped there; empty: what is sent of it is copied
  platform::Mapping buffers{};  // a portal's, where its device works in host memory: what Arrived may name
  platform::Fd buffers_file{};
  KeepAwake* awake = nullptr;  // told of what passes; null: nobody is
  std::atomic<bool> stop{false};
  std::atomic<bool> hold{false};   // nothing is taken out of the ring for now
  std::atomic<bool> knock{false};  // somebody wants something to be done between two messages
};

/// What is known of a connection by the messages that pass, for whoever is to move it (docs/migration.md).
struct Followed {
  explicit Followed(opencl::ObjectLog::Arena arena) : log(std::move(arena)) {}
  std::mutex mutex;
  std::condition_variable changed;  // the executor has said something
  opencl::ObjectLog log;
  std::vector<std::byte> facts;  // of the platform, as the first executor told the client
  bool facts_complete = false;
  std::string leave_why;  // why the node asks it to leave; empty: it does not
};

/// What one direction has carried. Whoever runs the pump may read it.
struct Traffic {
  std::uint64_t frames = 0, messages = 0, arena_bytes = 0, sends = 0;
  std::uint64_t uncopied_bytes = 0;  // of arena_bytes, sent as they lie there
};

/// From the ring to the stream.
class OutPump {
 public:
  /// What a message means for the arena. kAhead: a client's, whose contents go before it. kArrived: an executor's,
  /// whose Arrived are replaced by what they name.
  enum class Side { kClients, kExecutors };
  /// `followed`: shown every message of a client; null: nobody is to know.
  OutPump(Line& line, net::Stream& stream, Side side, Followed* followed = nullptr);

  /// Until `line.stop`, or the stream ends, or the ring's other side does (`alive` says; it is asked when there is
  /// nothing to do), or `line.hold`. But for the last, what was in the ring then has been sent. `between` is called
  /// after a `line.knock`, when all that was taken out of the ring has been sent; it may send, too.
  Status Run(const std::function<bool()>& alive, const std::function<void()>& between = {});
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  /// Takes from the ring what fits one send. False: there was nothing.
  Result<bool> Gather();
  Status Note(std::span<const std::byte> message, bool& passed_on);
  Status Follow(std::span<const std::byte>& message);
  Status AddArena(std::uint64_t offset, std::uint64_t size) { return AddContents(line_.arena, offset, offset, size); }
  Status AddContents(const platform::Mapping& memory, std::uint64_t from, std::uint64_t to, std::uint64_t size);
  void CloseMessages();
  Status Send();
  /// The file whose pages these are, when they are to be sent as they lie there; and where in it.
  [[nodiscard]] const platform::Fd* FileOf(const iovec& part, std::uint64_t& offset) const;
  Status SendUncopied(const platform::Fd& file, std::uint64_t offset, const iovec& part);

  Line& line_;
  net::Stream& stream_;
  const Side side_;
  Followed* const followed_;
  Traffic traffic_;
  std::vector<std::byte> messages_;               // room for kMessagesBytesMax
  std::size_t used_ = 0, framed_ = 0;             // of it; up to `framed_` it is in `parts_`
  std::vector<proto::net::FrameHeader> headers_;  // never reallocated while `parts_` points into it
  std::vector<iovec> parts_;
  Passing passing_;
};

/// Sends these, and nothing else of the connection's meanwhile.
Status SendMessages(net::Stream& stream, std::span<const std::vector<std::byte>> messages,
                    const std::atomic<bool>& stop);
/// Bytes for a place in the other side's arena.
Status SendContents(net::Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes,
                    const std::atomic<bool>& stop);

/// A portal's: the program is to leave this node, or (`why` empty) need not any more.
Status SendMoveWanted(net::Stream& stream, std::string_view why, const std::atomic<bool>& stop);

/// Where what comes goes.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  /// The message may be changed in its place. Whoever it is for need not hear of it before Taken.
  virtual Status Take(std::span<std::byte> message) = 0;
  /// What came together has all been taken.
  virtual void Taken() {}
  /// Memory for contents of the arena. kProtocol: there is none at that place.
  virtual Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) = 0;
  /// The node asks the program to leave, or (`why` empty) takes that back. kProtocol: nobody may ask here.
  virtual Status MoveWanted(const std::string& why);
};

/// The line's ring and arena.
class LineSink : public Sink {
 public:
  explicit LineSink(Line& line) : line_(line) {}
  Status Take(std::span<std::byte> message) override;
  void Taken() override;
  Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) override;

 private:
  Line& line_;
  bool to_tell_ = false;
};

/// From the stream to a sink.
class InPump {
 public:
  /// `stop`: ends waits. `awake`: told of what passes, where somebody is to be.
  InPump(const std::atomic<bool>& stop, net::Stream& stream, KeepAwake* awake = nullptr);

  /// Until `stop` or the stream ends (kUnavailable). kProtocol: what came is no frame, or is outside the arena.
  Status Run(Sink& sink);
  /// One frame, if one comes within `timeout`. False: none has begun.
  Result<bool> Step(Sink& sink, Duration timeout);
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  Status Fill(std::size_t wanted);
  Status TakeMessages(Sink& sink, std::size_t bytes);
  Status TakeArena(Sink& sink, std::uint64_t offset, std::size_t bytes);
  Status TakeMoveWanted(Sink& sink, std::size_t bytes);

  const std::atomic<bool>& stop_;
  net::Stream& stream_;
  Traffic traffic_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what has come and was not taken
  Passing passing_;
};

}  // namespace weir::remote
