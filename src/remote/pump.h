// SPDX-License-Identifier: Apache-2.0
// Carries the messages of a connection between a ring and a stream, with the parts of the arena that they refer to. A
// relay and a portal have two pumps each, one for each direction, each on its own thread.
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
#include "remote/zeroed_bytes.h"

namespace weir::remote {

/// The local memory of a connection, and flags that control its pumps.
struct Line {
  opencl::Channel channel;
  platform::Mapping arena;
  platform::Fd arena_file{};    // the file that is mapped at `arena`; empty: contents are sent by copying
  platform::Mapping buffers{};  // of a portal whose device uses host memory: buffers that Arrived messages may refer to
  platform::Fd buffers_file{};
  KeepAwake* awake = nullptr;  // notified of each message; may be null
  std::atomic<bool> stop{false};
  std::atomic<bool> hold{false};       // stops the pump before it takes more out of the ring
  std::atomic<bool> knock{false};      // requests a call of `between` in OutPump::Run
  std::atomic<std::uint64_t> sent{0};  // bytes that the stream has taken; while it rests, the other side may not read
};

/// What the messages of a connection reveal about its state, as a migration needs it (docs/migration.md).
struct Followed {
  explicit Followed(opencl::ObjectLog::Arena arena) : log(std::move(arena)) {}
  std::mutex mutex;
  std::condition_variable changed;  // notified when the executor has sent a message
  opencl::ObjectLog log;
  std::vector<std::byte> facts;  // the platform's facts that the first executor sent to the client
  bool facts_complete = false;
  std::string drain_reason;  // reason of the node's drain request; empty if there is none
};

/// Traffic of one direction. Only the thread that runs the pump may read it.
struct Traffic {
  std::uint64_t frames = 0, messages = 0, arena_bytes = 0, sends = 0;
  std::uint64_t uncopied_bytes = 0;  // part of arena_bytes that was sent without a copy
};

/// Carries messages from the ring to the stream.
class OutPump {
 public:
  /// How messages refer to the arena. kClients: contents are sent before the message that refers to them. kExecutors:
  /// an Arrived message is replaced by the contents that it names.
  enum class Side { kClients, kExecutors };
  /// `followed`: records every message of a client; may be null.
  OutPump(Line& line, net::Stream& stream, Side side, Followed* followed = nullptr);

  /// Runs until `line.stop`, the end of the stream, `line.hold`, or the end of the ring's other side. `alive` tests the
  /// latter and is called when the ring is empty. Unless `line.hold` ended it, all messages in the ring have been sent.
  /// `between` is called after `line.knock` was set, when every message taken from the ring has been sent; it may send
  /// as well.
  Status Run(const std::function<bool()>& alive, const std::function<void()>& between = {});
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

 private:
  /// Takes as many messages from the ring as fit one send. Returns false if there were none.
  Result<bool> Gather();
  Status Note(std::span<const std::byte> message, bool& passed_on);
  Status Follow(std::span<const std::byte>& message);
  Status AddArena(std::uint64_t offset, std::uint64_t size) { return AddContents(line_.arena, offset, offset, size); }
  Status AddContents(const platform::Mapping& memory, std::uint64_t from, std::uint64_t to, std::uint64_t size);
  void CloseMessages();
  Status Send();
  /// The file and offset of these bytes if they are to be sent without a copy; otherwise null.
  [[nodiscard]] const platform::Fd* FileOf(const iovec& part, std::uint64_t& offset) const;
  Status SendUncopied(const platform::Fd& file, std::uint64_t offset, const iovec& part);

  Line& line_;
  net::Stream& stream_;
  const Side side_;
  Followed* const followed_;
  Traffic traffic_;
  std::vector<std::byte> messages_;               // kMessagesBytesMax bytes
  std::size_t used_ = 0, framed_ = 0;             // used bytes of messages_; those before `framed_` are in `parts_`
  std::vector<proto::net::FrameHeader> headers_;  // never reallocated while `parts_` points into it
  std::vector<iovec> parts_;
  Passing passing_;
};

/// Sends these messages. Nothing else may be sent on the connection meanwhile. kTimeout: the other side has taken
/// nothing for `within`. The connection is then of no more use, because a part of a frame may have been sent.
Status SendMessages(net::Stream& stream, std::span<const std::vector<std::byte>> messages,
                    const std::atomic<bool>& stop, Duration within = Duration::max());
/// Sends bytes to a place in the other side's arena. kTimeout: as for SendMessages.
Status SendContents(net::Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes,
                    const std::atomic<bool>& stop, Duration within = Duration::max());

/// Sent by a portal: a drain request with its reason. An empty `why` cancels it.
Status SendMoveWanted(net::Stream& stream, std::string_view why, const std::atomic<bool>& stop);

/// The receiver of an InPump's messages and contents.
class Sink {
 public:
  Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  virtual ~Sink() = default;
  /// Takes one message, which may be modified in place. The recipient need not be woken before Taken.
  virtual Status Take(std::span<std::byte> message) = 0;
  /// All messages that arrived together have been taken.
  virtual void Taken() {}
  /// Returns the memory for contents of the arena. kProtocol: the range is invalid.
  virtual Result<std::span<std::byte>> Room(std::uint64_t offset, std::size_t bytes) = 0;
  /// A drain request of the node; an empty `why` cancels it. kProtocol: not accepted on this side.
  virtual Status MoveWanted(const std::string& why);
};

/// Delivers to the ring and arena of a line.
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

/// Carries messages from the stream to a sink.
class InPump {
 public:
  /// `stop` ends waits. `awake` is notified of each message; may be null.
  InPump(const std::atomic<bool>& stop, net::Stream& stream, KeepAwake* awake = nullptr);

  /// Runs until `stop` or the end of the stream (kUnavailable). kProtocol: malformed frame, or a range outside the
  /// arena.
  Status Run(Sink& sink);
  /// Takes one frame if one begins within `timeout`; otherwise returns false.
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
  ZeroedBytes buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the received bytes that were not yet processed
  Passing passing_;
};

}  // namespace weir::remote
