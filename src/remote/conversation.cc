// SPDX-License-Identifier: Apache-2.0
#include "remote/conversation.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "platform/clock.h"

namespace weir::remote {
namespace {

/// Interval at which a wait for the thread of Run checks whether the old node reads.
constexpr Duration kStallLook = milliseconds(50);

/// Whether a node has taken no data for a while.
class Stall {
 public:
  Stall(const std::atomic<std::uint64_t>& sent, Duration within) : sent_(sent), within_(within) {}
  [[nodiscard]] bool Lasts() {
    const Instant now = platform::Now();
    if (const std::uint64_t sent = sent_.load(std::memory_order_relaxed); sent != seen_) {
      seen_ = sent;
      since_ = now;
    }
    return now - since_ >= within_;
  }

 private:
  const std::atomic<std::uint64_t>& sent_;
  const Duration within_;
  std::uint64_t seen_ = sent_.load(std::memory_order_relaxed);
  Instant since_ = platform::Now();
};

}  // namespace

void SayRelay(const std::string& text) { std::fprintf(stderr, "weir: %s\n", text.c_str()); }

Status Conversation::Adopt(Entered entered, std::span<std::vector<std::byte>> late) {
  node_ = std::move(entered);
  leaving_ = false;
  if (in_ == nullptr) in_ = std::make_unique<InPump>(line_.stop, *node_.stream, line_.awake);
  sink_ = std::make_unique<FollowedSink>(line_, followed_, node_.entry.ahead_ns);
  Status told = Ok();
  for (std::vector<std::byte>& message : late)
    if (told) told = sink_->Take(message);
  sink_->Taken();
  const bool started = reader_.Start([this] {
    const Status status = in_->Run(*sink_);
    sink_->Ended();
    if (!leaving_.load()) Lose(status);
  });
  if (!started) Lose(Fail(Errc::kResourceExhausted, "no thread can be started for its messages"));
  return told;
}

/// Ends the connection from another thread than that of Run.
void Conversation::Lose(const Status& why) {
  if (!line_.stop.exchange(true) && !why) SayRelay(accepted_.program + ": " + why.error().message);
  line_.channel.in.Interrupt();
  ::shutdown(socket_, SHUT_RDWR);  // the client sees that its device is lost
}

void Conversation::EndReader() {
  node_.stream->Shutdown();
  reader_.Join();
}

void Conversation::Run() {
  Status status = Ok();
  while (status && !line_.stop.load()) {
    OutPump out(line_, *node_.stream, OutPump::Side::kClients, &followed_);
    status = out.Run([this] { return opencl::StillConnected(socket_); }, [this] { DoErrand(); });
    // Sends what an earlier migration has left. The request can be withdrawn meanwhile, because the node may not read.
    if (line_.hold.load()) DoErrand();
    std::shared_ptr<PendingMove> pending;
    {
      const std::lock_guard lock(pending_mutex_);
      pending = std::exchange(pending_, nullptr);
      line_.hold.store(false);
    }
    if (pending == nullptr) break;  // the client has gone
    if (pending->withdrawn) continue;
    std::vector<std::vector<std::byte>> owed;
    Answer(*pending, status ? Move(*pending, owed) : Result<proto::MoveFigures>(status.error()));
    pending.reset();  // closes the connection to a new node that is not used
    // Sent after the answer, because the old node may not read.
    if (!owed.empty()) status = SendMessages(*node_.stream, owed, line_.stop);
  }
  if (!line_.stop.exchange(true) && !status) SayRelay(accepted_.program + ": " + status.error().message);
  EndReader();
  Close();
}

/// From now on, refuses migrations and work for AtBoundary.
void Conversation::Close() {
  const std::lock_guard lock(pending_mutex_);
  over_ = true;
  errand_done_.notify_all();
  if (pending_ != nullptr && !pending_->withdrawn) Answer(*pending_, Fail(Errc::kUnavailable, kOver));
}

/// Makes the thread of Run do `work` between two messages of the client, and waits for it, but not until the messages
/// that it returns are sent. If it fails, the work was not done. kUnavailable: the connection has ended. kTimeout: the
/// thread can't send a message, because the node reads nothing.
Status Conversation::AtBoundary(const Mover::Work& work) {
  std::unique_lock lock(pending_mutex_);
  errand_ = &work;
  line_.knock.store(true);
  line_.channel.in.Interrupt();
  Stall stall(line_.sent, old_reads_within_);
  const auto is_done = [this] { return errand_ == nullptr || over_; };
  while (!errand_done_.wait_for(lock, kStallLook, is_done) && !stall.Lasts()) {
  }
  if (std::exchange(errand_, nullptr) == nullptr) return Ok();
  return over_ ? Fail(Errc::kUnavailable, kOver) : OldNodeReadsNothing(old_reads_within_);
}

void Conversation::DoErrand() {
  std::vector<std::vector<std::byte>> leavings;
  {
    const std::lock_guard lock(pending_mutex_);
    leavings = std::exchange(leavings_, {});
  }
  // If this fails the connection is over, and its objects with it.
  static_cast<void>(SendMessages(*node_.stream, leavings, line_.stop));
  std::vector<std::vector<std::byte>> questions;
  {
    const std::lock_guard lock(pending_mutex_);
    // An errand of a later migration uses the same ids, and waits for leavings that have come meanwhile. Its knock
    // makes this function be called again.
    if (errand_ == nullptr || !leavings_.empty()) return;
    questions = (*errand_)();
    errand_ = nullptr;
    errand_done_.notify_all();
  }
  // Nobody waits for this send, because the old node may not read.
  static_cast<void>(SendMessages(*node_.stream, questions, line_.stop));
}

void Conversation::Answer(PendingMove& pending, Result<proto::MoveFigures> outcome) {
  const std::lock_guard lock(pending.mutex);
  pending.outcome = std::move(outcome);
  pending.changed.notify_all();
}

Status Conversation::Enter(PendingMove& pending) {
  WEIR_TRY(pending.fresh, pending.enter());
  pending.fresh_in = std::make_unique<InPump>(line_.stop, *pending.fresh.stream, line_.awake);
  pending.mover = std::make_unique<Mover>(OldNode{.followed = followed_,
                                                  .sink = *sink_,
                                                  .stream = *node_.stream,
                                                  .arena_bytes = line_.arena.bytes(),
                                                  .reads_within = old_reads_within_},
                                          pending.fresh.entry, *pending.fresh.stream, *pending.fresh_in, line_.stop);
  return Ok();
}

Status Conversation::CopyAhead(PendingMove& pending) {
  WEIR_TRY_STATUS(Enter(pending));
  return pending.mover->CopyAhead([this](const Mover::Work& work) { return AtBoundary(work); });
}

void Conversation::GiveUp(PendingMove& pending) {
  if (pending.mover == nullptr) return;
  auto leavings = pending.mover->Leavings();
  if (leavings.empty()) return;
  // Not waited for, because the old node may not read.
  const std::lock_guard lock(pending_mutex_);
  std::ranges::move(leavings, std::back_inserter(leavings_));
  line_.knock.store(true);
  line_.channel.in.Interrupt();
}

Result<proto::MoveFigures> Conversation::Outcome(const std::shared_ptr<PendingMove>& pending) {
  Stall stall(line_.sent, old_reads_within_);
  std::unique_lock lock(pending->mutex);
  while (!pending->changed.wait_for(lock, kStallLook, [&pending] { return pending->outcome.has_value(); })) {
    if (!stall.Lasts()) continue;
    lock.unlock();
    Withdraw(*pending);
    lock.lock();
  }
  return *pending->outcome;
}

/// Answers the request if Run has not begun it, because it can't send the client's messages, and closes the connection
/// to the new node. A migration that has begun has time limits of its own. The hold stays until Run takes the request:
/// without one it would look like the end of the client.
void Conversation::Withdraw(PendingMove& pending) {
  {
    const std::lock_guard lock(pending_mutex_);
    if (pending_.get() != &pending || pending.withdrawn) return;
    pending.withdrawn = true;
    Answer(pending, OldNodeReadsNothing(old_reads_within_));
  }
  GiveUp(pending);
  pending.mover.reset();
  pending.fresh_in.reset();
  pending.fresh = {};
}

/// Called if objects that were created ahead prevent the migration. Releases them and copies everything in the pause.
Result<Moved> Conversation::FinishAgain(PendingMove& pending) {
  WEIR_TRY_STATUS(pending.mover->Leave());
  pending.mover.reset();
  WEIR_TRY_STATUS(Enter(pending));
  return pending.mover->Finish();
}

/// `owed`: messages to the old node with which the client stays there.
Result<proto::MoveFigures> Conversation::Move(PendingMove& pending, std::vector<std::vector<std::byte>>& owed) {
  const std::int64_t begin_ns = platform::NowNs();
  auto moved = pending.mover->Finish();
  if (!moved && pending.mover->in_the_way()) moved = FinishAgain(pending);
  if (!moved) {
    // The old node continues, and reports the errors that the log still owes the client.
    if (pending.mover != nullptr) owed = pending.mover->Leavings();
    const std::lock_guard lock(followed_.mutex);
    for (auto& failing : followed_.log.ErrorsOwed()) owed.push_back(std::move(failing));
    return moved.error();
  }
  leaving_ = true;
  EndReader();
  in_ = std::move(pending.fresh_in);
  {
    const std::lock_guard lock(followed_.mutex);
    followed_.drain_reason = moved->drain_reason;
  }
  if (const Status told = Adopt(std::move(pending.fresh), moved->late); !told) return told.error();
  return proto::MoveFigures{.objects = moved->objects,
                            .memories = moved->memories,
                            .bytes_before = moved->bytes_before,
                            .bytes_in_pause = moved->bytes_in_pause,
                            .bytes_unchanged = moved->bytes_unchanged,
                            .pause_us = static_cast<std::uint64_t>(platform::NowNs() - begin_ns) / 1000};
}

}  // namespace weir::remote
