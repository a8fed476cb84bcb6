// SPDX-License-Identifier: Apache-2.0
#include "remote/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "net/crew.h"
#include "opencl/channel/handshake.h"
#include "opencl/channel/limits.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "platform/service_end.h"
#include "proto/opencl_messages.h"
#include "remote/drain_handler.h"
#include "remote/handshake.h"
#include "remote/keep_awake.h"
#include "remote/move.h"
#include "remote/pump.h"

namespace weir::remote {
namespace {

constexpr Duration kTick = milliseconds(100);
constexpr Duration kFresh = seconds(5);
constexpr int kHelloWaitMs = 2'000;
constexpr std::size_t kClientsMax = 256;

void SayRelay(const std::string& text) { std::fprintf(stderr, "weir: %s\n", text.c_str()); }

/// Advice to the user for messages about a drain request that no command carries out.
std::string HintIn(const RelayOptions& options) {
  if (options.for_children || options.parent == 0) return "";
  return "; 'weir migrate " + std::to_string(options.parent) +
         " --to ...' moves it, and 'weir run --move-to ...' lets it go by itself";
}

/// The part of the node's arena that the client may use. The end is reserved for migrations (docs/migration.md).
opencl::ArenaSize ShownOf(const NodeArena& arena) {
  constexpr std::uint64_t kLeastBytes = 2 * opencl::kSpareBytes;
  std::uint64_t shown = arena.bytes;  // one too small to be split is shown as a whole: the connection cannot migrate
  if (shown >= kLeastBytes)
    shown = (shown - opencl::kSpareBytes) / proto::cl::kArenaAlignment * proto::cl::kArenaAlignment;
  if (arena.staging >= shown) return {.buffers = shown};
  return {.buffers = shown - arena.staging, .staging = arena.staging};
}

/// A connection that the node has admitted.
struct Entered {
  std::unique_ptr<net::Stream> stream;
  Entry entry;
};

/// The connection of one client, which may migrate to another node.
class Conversation {
 public:
  Conversation(opencl::Accepted accepted, Entered entered, KeepAwake& awake)
      : accepted_(std::move(accepted)),
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
  };
  // Called by another thread, which keeps the PendingMove until it is answered. One at a time.

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
  /// Requests the rest of the migration after CopyAhead. Run answers `pending`.
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
  bool AtBoundary(const std::function<void()>& work);
  void DoErrand();
  Result<Moved> FinishAgain(PendingMove& pending);
  Result<proto::MoveFigures> Move(PendingMove& pending);
  static void Answer(PendingMove& pending, Result<proto::MoveFigures> outcome);

  static constexpr const char* kOver = "the program has ended";

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
  const std::function<void()>* errand_ = nullptr;  // work to be done between two messages
  bool over_ = false;
};

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
    std::shared_ptr<PendingMove> pending;
    {
      const std::lock_guard lock(pending_mutex_);
      pending = std::exchange(pending_, nullptr);
      line_.hold.store(false);
    }
    if (pending == nullptr) break;  // the client has gone
    Answer(*pending, status ? Move(*pending) : Result<proto::MoveFigures>(status.error()));
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
  if (pending_ != nullptr) Answer(*pending_, Fail(Errc::kUnavailable, kOver));
}

/// Makes the thread of Run do `work` between two messages of the client, and waits for it. False: the connection has
/// ended, and the work was not done.
bool Conversation::AtBoundary(const std::function<void()>& work) {
  std::unique_lock lock(pending_mutex_);
  errand_ = &work;
  line_.knock.store(true);
  line_.channel.in.Interrupt();
  errand_done_.wait(lock, [this] { return errand_ == nullptr || over_; });
  return std::exchange(errand_, nullptr) == nullptr;
}

void Conversation::DoErrand() {
  const std::lock_guard lock(pending_mutex_);
  if (errand_ == nullptr) return;
  (*errand_)();
  errand_ = nullptr;
  errand_done_.notify_all();
}

void Conversation::Answer(PendingMove& pending, Result<proto::MoveFigures> outcome) {
  const std::lock_guard lock(pending.mutex);
  pending.outcome = std::move(outcome);
  pending.changed.notify_all();
}

Status Conversation::Enter(PendingMove& pending) {
  WEIR_TRY(pending.fresh, pending.enter());
  pending.fresh_in = std::make_unique<InPump>(line_.stop, *pending.fresh.stream, line_.awake);
  pending.mover = std::make_unique<Mover>(
      OldNode{.followed = followed_, .sink = *sink_, .stream = *node_.stream, .arena_bytes = line_.arena.bytes()},
      pending.fresh.entry, *pending.fresh.stream, *pending.fresh_in, line_.stop);
  return Ok();
}

Status Conversation::CopyAhead(PendingMove& pending) {
  WEIR_TRY_STATUS(Enter(pending));
  return pending.mover->CopyAhead([this](const std::function<void()>& work) { return AtBoundary(work); });
}

void Conversation::GiveUp(PendingMove& pending) {
  if (pending.mover == nullptr) return;
  const auto leavings = pending.mover->Leavings();
  if (leavings.empty()) return;
  // If this fails the connection is over, and its objects with it.
  AtBoundary([&] { static_cast<void>(SendMessages(*node_.stream, leavings, line_.stop)); });
}

/// Called if objects that were created ahead prevent the migration. Releases them and copies everything in the pause.
Result<Moved> Conversation::FinishAgain(PendingMove& pending) {
  WEIR_TRY_STATUS(SendMessages(*node_.stream, pending.mover->Leavings(), line_.stop));
  pending.mover.reset();
  WEIR_TRY_STATUS(Enter(pending));
  return pending.mover->Finish();
}

Result<proto::MoveFigures> Conversation::Move(PendingMove& pending) {
  const std::int64_t begin_ns = platform::NowNs();
  auto moved = pending.mover->Finish();
  if (!moved && pending.mover->in_the_way()) moved = FinishAgain(pending);
  if (!moved) {
    // The old node continues, and reports the errors that the log still owes the client.
    std::vector<std::vector<std::byte>> messages;
    if (pending.mover != nullptr) messages = pending.mover->Leavings();
    {
      const std::lock_guard lock(followed_.mutex);
      for (auto& failing : followed_.log.ErrorsOwed()) messages.push_back(std::move(failing));
    }
    if (const Status sent = SendMessages(*node_.stream, messages, line_.stop); !sent) return sent.error();
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

class Relay {
 public:
  explicit Relay(RelayOptions options)
      : options_(std::move(options)),
        node_(options_.node),
        drain_handler_(options_.when_asked, options_.program.empty() ? "a program" : options_.program,
                       HintIn(options_)) {}
  Status Run();

 private:
  Result<Entered> EnterFirst();
  Result<Entered> EnterNode(const proto::MoveRequest& node);
  void Serve(platform::Fd client);
  void Control(platform::Fd socket);
  std::string Where();
  std::string DrainReason();
  Result<std::string> MoveAll(const proto::MoveRequest& request);

  RelayOptions options_;
  std::mutex mutex_;
  proto::MoveRequest node_;       // where new connections go
  std::optional<Entered> first_;  // the connection that verified access; reused for the first client if it comes soon
  std::int64_t entered_ns_ = 0;
  std::list<std::shared_ptr<Conversation>> conversations_;
  std::mutex moving_;  // one migration at a time
  DrainHandler drain_handler_;
  KeepAwake awake_;
  net::Crew crew_;  // last, because its threads use the other members
};

Result<Entered> Relay::EnterNode(const proto::MoveRequest& node) {
  Entered entered;
  WEIR_TRY(entered.stream, options_.connect(node));
  WEIR_TRY(entered.entry, Enter(*entered.stream, {.vgpu = node.vgpu, .program = options_.program}));
  return entered;
}

Result<Entered> Relay::EnterFirst() {
  proto::MoveRequest node;
  {
    const std::lock_guard lock(mutex_);
    if (first_) {
      Entered first = std::move(*first_);
      first_.reset();
      if (platform::NowNs() - entered_ns_ < kFresh.count()) return first;  // an older connection may have been lost
    }
    node = node_;
  }
  return EnterNode(node);
}

void Relay::Serve(platform::Fd client) {
  const int socket = client.get();
  auto entered = EnterFirst();
  if (!entered) {
    const std::string& why = entered.error().message;
    SayRelay(why);
    // Receives the client's Hello first; closing with unread data would discard the reply.
    if (platform::WaitReadable(socket, kHelloWaitMs))
      static_cast<void>(
          platform::ReceivePacket(socket, proto::cl::kHandshakeBytesMax, platform::Descriptors::kRefused));
    static_cast<void>(platform::SendPacket(
        socket, proto::cl::Encode(proto::cl::Welcome{.magic = proto::cl::kHelloMagic, .refusal = why})));
    return;
  }
  const auto who = platform::PeerOf(socket);
  const uid_t owner = options_.for_children && who ? who->uid : ::getuid();
  // A client sends its Hello immediately.
  if (!platform::WaitReadable(socket, kHelloWaitMs)) return;
  auto accepted = opencl::Welcome(std::move(client), {.owner = owner}, ShownOf(entered->entry.arena),
                                  /*in_host_memory=*/false);
  if (!accepted) return SayRelay(accepted.error().message);
  const auto conversation = std::make_shared<Conversation>(std::move(*accepted), std::move(*entered), awake_);
  auto at = conversations_.end();
  {
    const std::lock_guard lock(mutex_);
    at = conversations_.insert(conversations_.end(), conversation);
  }
  conversation->Run();
  const std::lock_guard lock(mutex_);
  conversations_.erase(at);
}

Result<std::string> Relay::MoveAll(const proto::MoveRequest& request) {
  const std::lock_guard one_at_a_time(moving_);
  // The program may have migrated meanwhile, or the drain request was cancelled.
  if (request.if_asked && DrainReason().empty()) return Fail(Errc::kBusy, "its node has cancelled the drain request");
  if (request.if_asked && request.node == Where())
    return Fail(Errc::kInvalidArgument, "it is at " + request.node + " already, which made the drain request");
  std::list<std::shared_ptr<Conversation>> conversations;
  {
    const std::lock_guard lock(mutex_);
    conversations = conversations_;
  }
  std::vector<std::pair<std::shared_ptr<Conversation>, std::shared_ptr<Conversation::PendingMove>>> moves;
  for (const auto& conversation : conversations) {
    auto pending = std::make_shared<Conversation::PendingMove>();
    pending->enter = [this, &request] { return EnterNode(request); };
    moves.emplace_back(conversation, pending);
    if (const Status copied = conversation->CopyAhead(*pending); !copied) {
      if (conversation->over()) {  // a process of the program has ended; the others migrate
        moves.pop_back();
        continue;
      }
      for (const auto& [there, given_up] : moves) there->GiveUp(*given_up);
      return copied.error();
    }
  }
  for (const auto& [conversation, pending] : moves) conversation->RequestMove(pending);
  std::vector<proto::MoveFigures> figures;
  std::optional<Error> error;
  for (const auto& [conversation, pending] : moves) {
    std::unique_lock lock(pending->mutex);
    pending->changed.wait(lock, [&answered = *pending] { return answered.outcome.has_value(); });
    if (*pending->outcome)
      figures.push_back(**pending->outcome);
    else if (!error && !conversation->over())
      error = pending->outcome->error();
  }
  if (error) {
    if (!figures.empty()) error->message += "; others of the program's connections have moved";
    return *error;
  }
  const std::lock_guard lock(mutex_);
  node_ = request;
  first_.reset();
  if (!figures.empty()) return proto::MoveText(figures);
  return std::string(conversations.empty() ? "nothing was connected" : "the connections ended meanwhile") +
         "; new connections go there";
}

std::string Relay::Where() {
  const std::lock_guard lock(mutex_);
  return node_.node;
}

/// The reason of the first drain request that a connection has; empty if none has one.
std::string Relay::DrainReason() {
  const std::lock_guard lock(mutex_);
  for (const auto& conversation : conversations_)
    if (std::string why = conversation->DrainReason(); !why.empty()) return why;
  return {};
}

void Relay::Control(platform::Fd socket) {
  const auto peer = platform::PeerOf(socket.get());
  if (!peer || (peer->uid != ::getuid() && peer->uid != 0)) return;
  if (!platform::WaitReadable(socket.get(), kHelloWaitMs)) return;
  const auto packet = platform::ReceivePacket(socket.get(), proto::kControlBytesMax, platform::Descriptors::kRefused);
  if (!packet) return;
  const std::string_view text(reinterpret_cast<const char*>(packet->bytes.data()), packet->bytes.size());
  const auto request = proto::RequestFrom(text);
  const std::string answer = proto::AnswerText(text == proto::kWhereIs ? Result<std::string>(Where())
                                               : request               ? MoveAll(*request)
                                                         : Fail(Errc::kInvalidArgument, "not a valid request to move"));
  static_cast<void>(platform::SendPacket(socket.get(), std::as_bytes(std::span(answer))));
}

Status Relay::Run() {
  WEIR_TRY(first_, EnterFirst());
  entered_ns_ = platform::NowNs();
  WEIR_TRY(const platform::Fd parent, platform::WatchParent(options_.parent));
  if (options_.when_ready) options_.when_ready();
  bool alone = false;
  platform::AcceptPause pause;
  for (;;) {
    const bool pausing = pause.Holds(platform::Now());
    pollfd watched[3] = {{pausing ? -1 : options_.listener.get(), POLLIN, 0},
                         {alone ? -1 : parent.get(), POLLIN, 0},
                         {pausing ? -1 : options_.control.get(), POLLIN, 0}};
    if (::poll(watched, 3, static_cast<int>(kTick.count() / 1'000'000)) < 0 && errno != EINTR)
      return platform::ErrnoError("waiting for clients", errno);
    const std::size_t at_work = crew_.Reap();
    drain_handler_.See(platform::Now(), DrainReason());
    if ((watched[1].revents & POLLIN) != 0) alone = true;
    if (alone && at_work == 0) return Ok();
    for (const int which : {0, 2}) {
      if ((watched[which].revents & POLLIN) == 0) continue;
      platform::Fd client(::accept4(watched[which].fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client && errno != EAGAIN && errno != ECONNABORTED && pause.Failed(platform::Now()))
        SayRelay(platform::ErrnoError("accepting a program", errno).message);
      if (!client || at_work >= kClientsMax) continue;
      if (which == 0 && options_.for_children && !platform::PeerIsChildOf(client.get(), options_.parent)) continue;
      const bool started = crew_.Start([this, which, shared = std::make_shared<platform::Fd>(std::move(client))] {
        which == 0 ? Serve(std::move(*shared)) : Control(std::move(*shared));
      });
      if (!started && pause.Failed(platform::Now())) SayRelay("no thread can be started for a program; it is refused");
    }
  }
}

}  // namespace

Status RunRelay(RelayOptions options) { return Relay(std::move(options)).Run(); }

}  // namespace weir::remote
