// SPDX-License-Identifier: Apache-2.0
#include "remote/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "net/crew.h"
#include "opencl/channel/handshake.h"
#include "opencl/channel/limits.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "platform/service_end.h"
#include "proto/opencl_messages.h"
#include "remote/conversation.h"
#include "remote/drain_handler.h"
#include "remote/handshake.h"
#include "remote/keep_awake.h"

namespace weir::remote {
namespace {

constexpr Duration kTick = milliseconds(100);
constexpr Duration kFresh = seconds(5);
constexpr int kHelloWaitMs = 2'000;
constexpr std::size_t kClientsMax = 256;

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
  const auto conversation =
      std::make_shared<Conversation>(std::move(*accepted), std::move(*entered), awake_, options_.old_reads_within);
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
    const Result<proto::MoveFigures> outcome = conversation->Outcome(pending);
    if (outcome)
      figures.push_back(*outcome);
    else if (!error && !conversation->over())
      error = outcome.error();
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
