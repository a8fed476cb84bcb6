// SPDX-License-Identifier: Apache-2.0
// A relay's connection of one client, which may migrate to another node (docs/migration.md).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/crew.h"
#include "opencl/channel/handshake.h"
#include "proto/relay_control.h"
#include "remote/followed_sink.h"
#include "remote/handshake.h"
#include "remote/keep_awake.h"
#include "remote/move.h"
#include "remote/pump.h"

namespace weir::remote {

/// Prints a line for the relay's user.
void SayRelay(const std::string& text);

/// A connection that the node has admitted.
struct Entered {
  std::unique_ptr<net::Stream> stream;
  Entry entry;
};

/// The connection of one client, which may migrate to another node.
class Conversation {
 public:
  /// `old_reads_within`: a migration ends when the old node has taken no data for this long.
  Conversation(opencl::Accepted accepted, Entered entered, KeepAwake& awake, Duration old_reads_within)
      : old_reads_within_(old_reads_within),
        accepted_(std::move(accepted)),
        socket_(accepted_.socket.get()),
        followed_([this](std::uint64_t offset, std::uint64_t size) { return InArena(offset, size); }) {
    line_.channel = std::move(accepted_.channel);
    line_.arena = std::move(accepted_.arena);
    line_.arena_file = std::move(accepted_.arena_file);
    line_.awake = &awake;
    static_cast<void>(Adopt(std::move(entered)));
  }

  /// Runs until the client or the node has gone.
  void Run();

  /// A request to move to another node.
  struct PendingMove {
    std::function<Result<Entered>()> enter;
    // The connection to the new node, and the migration.
    Entered fresh{};
    std::unique_ptr<InPump> fresh_in{};
    std::unique_ptr<Mover> mover{};
    std::mutex mutex{};
    std::condition_variable changed{};
    std::optional<Result<proto::MoveFigures>> outcome{};
    bool withdrawn = false;  // Run does not begin it any more; guarded by pending_mutex_ until Run has taken it
  };
  // Called by another thread. One migration at a time.

  /// Connects to the new node and copies contents while the client runs.
  Status CopyAhead(PendingMove& pending);
  /// The client or the node has gone. True as soon as the pumps are told to stop, because a migration fails from then
  /// on.
  [[nodiscard]] bool over() {
    const std::lock_guard lock(pending_mutex_);
    return over_ || line_.stop.load();
  }
  /// The reason of the node's drain request; empty if there is none.
  [[nodiscard]] std::string DrainReason() {
    const std::lock_guard lock(followed_.mutex);
    return followed_.drain_reason;
  }
  /// Abandons a migration after CopyAhead.
  void GiveUp(PendingMove& pending);
  /// Requests the rest of the migration after CopyAhead. Outcome then waits for its end.
  void RequestMove(const std::shared_ptr<PendingMove>& pending) {
    {
      // Both are set under the lock, because Run takes the move and ends the hold. A hold without a move would
      // look like the end of the client.
      const std::lock_guard lock(pending_mutex_);
      if (over_) return Answer(*pending, Fail(Errc::kUnavailable, kOver));
      pending_ = pending;
      line_.hold.store(true);
    }
    line_.channel.in.Interrupt();
  }
  /// kTimeout: the old node reads nothing. The request is withdrawn then, and the client stays there.
  Result<proto::MoveFigures> Outcome(const std::shared_ptr<PendingMove>& pending);

 private:
  proto::cl::ByteView InArena(std::uint64_t offset, std::uint64_t size) {
    if (offset > line_.arena.bytes() || size > line_.arena.bytes() - offset) return {};
    return {line_.arena.As<std::byte>() + offset, size};
  }
  /// Reads from this node from now on. `late`: messages that the client receives first.
  Status Adopt(Entered entered, std::span<std::vector<std::byte>> late = {});
  void Lose(const Status& why);
  void EndReader();
  void Close();
  Status Enter(PendingMove& pending);
  Status AtBoundary(const Mover::Work& work);
  void DoErrand();
  void Withdraw(PendingMove& pending);
  Result<Moved> FinishAgain(PendingMove& pending);
  Result<proto::MoveFigures> Move(PendingMove& pending, std::vector<std::vector<std::byte>>& owed);
  static void Answer(PendingMove& pending, Result<proto::MoveFigures> outcome);

  static constexpr const char* kOver = "the program has ended";

  const Duration old_reads_within_;
  opencl::Accepted accepted_;
  const int socket_;
  Line line_;
  Followed followed_;
  Entered node_;
  std::unique_ptr<FollowedSink> sink_;
  std::unique_ptr<InPump> in_;
  std::atomic<bool> leaving_{false};  // the reader's stream is being closed on purpose
  net::Crew reader_;                  // one thread
  std::mutex pending_mutex_;
  std::condition_variable errand_done_;
  std::shared_ptr<PendingMove> pending_;
  const Mover::Work* errand_ = nullptr;           // work to be done between two messages
  std::vector<std::vector<std::byte>> leavings_;  // messages to be sent between two messages, before the errand
  bool over_ = false;
};

}  // namespace weir::remote
