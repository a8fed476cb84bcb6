// SPDX-License-Identifier: Apache-2.0
#include "remote/port_loop.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "net/tcp_stream.h"
#include "opencl/channel/adaptive_spin.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "remote/handshake.h"
#include "remote/memory_pace.h"
#include "remote/port_mux.h"

namespace weir::remote {
namespace {

namespace frames = proto::port;

constexpr Duration kOpenAgain = milliseconds(200);
/// The time for which a new stream waits for the other end.
constexpr Duration kJoinWithin = seconds(5);
/// Bound of the rate of messages about a peer that sends only malformed data.
constexpr Duration kSayAgain = seconds(1);
/// No more is read from streams while this much waits to be written to the port.
constexpr std::size_t kGoingMax = 256 * 1024;
/// No more is read from the port while this much waits to be written: the other end sends but does not read the
/// answers.
constexpr std::size_t kAnswersMax = 2 * kGoingMax;
constexpr std::size_t kPortReadBytes = 128 * 1024;
/// Connections in the guest that wait for a stream.
constexpr std::size_t kWaitingMax = frames::kStreamsMax;
constexpr unsigned long kSlackNs = 5'000;

/// Bytes transferred; 0: none now; nullopt: the end.
std::optional<std::size_t> BytesMoved(ssize_t count) {
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return std::nullopt;
}

class PortLoop final : PortEvents {
 public:
  explicit PortLoop(PortLoopOptions options)
      : options_(std::move(options)),
        mux_(options_.side, DrawEpoch, *this),
        buffer_(kPortReadBytes),
        busy_(platform::Now()) {}
  Status Run();

 private:
  /// The local socket of a stream.
  struct Local {
    platform::Fd socket;
    std::vector<std::byte> coming{};  // received for the socket and not yet written to it
    bool ended = false;  // the other end has closed the stream: the socket is closed once `coming` is written
  };
  /// A connection in the guest whose stream has not begun yet.
  struct Waiting {
    platform::Fd socket;
    Instant since;
  };

  void OnJoined() override {}
  void OnLost(const std::string& why) override;
  void OnOpened(std::uint32_t stream) override;
  void OnData(std::uint32_t stream, std::span<const std::byte> bytes) override;
  void OnClosed(std::uint32_t stream) override;

  void SayPort(const std::string& text);
  void OpenPort(Instant now);
  void StartMux(Instant now);
  void ClosePort(const std::string& why);
  void TurnAway();
  void ReadPort(Instant now);
  void WritePort(Instant now);
  void AcceptSome();
  void CannotAccept(const Error& error);
  void BeginWaiting(Instant now);
  void ReadLocal(std::uint32_t stream);
  void WriteLocal(std::uint32_t stream);
  bool IsIdle(Instant now);
  void Leave();
  [[nodiscard]] bool MayRead() const { return mux_.pending() < kGoingMax; }
  [[nodiscard]] bool MayAnswer() const { return mux_.pending() < kAnswersMax; }
  /// Whether the port has no descriptor for poll(2) and has to be polled.
  [[nodiscard]] bool MustLook() const { return port_ && port_->fd() < 0; }
  [[nodiscard]] Duration WaitFor(Instant now) const;
  void Gather();
  int Watch(Duration rest);
  int AwaitLooking(Duration rest);
  bool LineIsReady();
  void Carry(Instant now);

  PortLoopOptions options_;
  PortMux mux_;
  bool leaving_ = false;
  std::unique_ptr<PortLine> port_;
  Instant opened_{};  // time of the last attempt
  // For a port without a descriptor for poll(2).
  opencl::AdaptiveSpin spin_;
  MemoryPace pace_;
  std::map<std::uint32_t, Local> locals_;
  std::vector<Waiting> waiting_;
  platform::AcceptPause accept_pause_;
  std::vector<std::byte> buffer_;  // for one read
  std::vector<pollfd> watched_;
  std::vector<std::uint32_t> watched_streams_;
  Instant busy_;       // the last time at which there was a stream
  Instant said_at_{};  // the time of the last message
  std::string said_;   // the last reason why the port could not be opened
};

void PortLoop::SayPort(const std::string& text) {
  const Instant now = platform::Now();
  if (options_.quiet || (said_at_ != Instant{} && now - said_at_ < kSayAgain)) return;
  said_at_ = now;
  std::fprintf(stderr, "weir: %s: %s\n", options_.name.c_str(), text.c_str());
}

// -- The port --------------------------------------------------------------------------------------------------------

void PortLoop::OpenPort(Instant now) {
  opened_ = now;
  Result<std::unique_ptr<PortLine>> port = options_.open();
  if (!port) {
    if (port.error().code == Errc::kResourceExhausted && options_.knock >= 0) return CannotAccept(port.error());
    if (port.error().code != Errc::kTimeout && std::exchange(said_, port.error().message) != port.error().message)
      SayPort(said_);
    return;
  }
  said_.clear();
  port_ = std::move(*port);
  StartMux(now);
}

void PortLoop::StartMux(Instant now) { mux_.Start(now, options_.side == frames::Side::kGuest ? port_->room() : 0); }

void PortLoop::ClosePort(const std::string& why) {
  port_.reset();
  mux_.Stop(why);
}

/// Refuses a second peer; the first one keeps the port.
void PortLoop::TurnAway() {
  const auto other = options_.open();
  if (other) return SayPort("a second client for this guest was refused");
  if (other.error().code == Errc::kResourceExhausted) CannotAccept(other.error());
}

void PortLoop::ReadPort(Instant now) {
  const auto came = port_->Read(buffer_);
  if (!came) return ClosePort("the port was closed");
  if (*came > 0) pace_.Moved(now);
  if (port_->Restarted()) StartMux(now);
  mux_.Receive(std::span(buffer_).first(*came), now);
}

void PortLoop::WritePort(Instant now) {
  const std::span<const std::byte> out = mux_.Outgoing();
  if (!port_ || out.empty()) return;
  const auto went = port_->Write(out);
  if (!went) return ClosePort("the port was closed");
  if (*went > 0) pace_.Moved(now);
  mux_.Sent(*went);
}

void PortLoop::OnLost(const std::string& why) {
  SayPort(why + (locals_.empty() ? "" : "; " + std::to_string(locals_.size()) + " streams have ended"));
  locals_.clear();
}

// -- Streams ---------------------------------------------------------------------------------------------------------

void PortLoop::OnOpened(std::uint32_t stream) {
  int ends[2] = {-1, -1};
  if (leaving_ || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return mux_.Close(stream);
  locals_.emplace(stream, Local{.socket = platform::Fd(ends[0])});
  options_.opened(platform::Fd(ends[1]));
}

void PortLoop::OnData(std::uint32_t stream, std::span<const std::byte> bytes) {
  Local& local = locals_.at(stream);
  local.coming.insert(local.coming.end(), bytes.begin(), bytes.end());
  WriteLocal(stream);
}

void PortLoop::OnClosed(std::uint32_t stream) {
  Local& local = locals_.at(stream);
  local.ended = true;
  if (local.coming.empty()) locals_.erase(stream);
}

void PortLoop::WriteLocal(std::uint32_t stream) {
  const auto at = locals_.find(stream);
  if (at == locals_.end() || at->second.coming.empty()) return;
  Local& local = at->second;
  const auto went =
      BytesMoved(::send(local.socket.get(), local.coming.data(), local.coming.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  if (!went) {
    mux_.Close(stream);
    locals_.erase(at);
    return;
  }
  local.coming.erase(local.coming.begin(), local.coming.begin() + static_cast<std::ptrdiff_t>(*went));
  mux_.Taken(stream, *went);
  if (local.coming.empty() && local.ended) locals_.erase(at);
}

void PortLoop::ReadLocal(std::uint32_t stream) {
  const auto at = locals_.find(stream);
  if (at == locals_.end()) return;
  const std::size_t room = std::min<std::size_t>(frames::kDataBytesMax, mux_.Credit(stream));
  // Without credit, or for a stream that the other end has closed, this is called because the socket was hung up. The
  // data left in it has no recipient.
  const auto came =
      room == 0 ? std::nullopt : BytesMoved(::recv(at->second.socket.get(), buffer_.data(), room, MSG_DONTWAIT));
  if (came) {
    for (std::span<const std::byte> left = std::span(buffer_).first(*came); !left.empty();)
      left = left.subspan(mux_.Send(stream, left));  // the credit covers all of it
    return;
  }
  mux_.Close(stream);
  locals_.erase(at);
}

// -- Stream requests in a guest --------------------------------------------------------------------------------------

/// Others stay in the listener's queue until these have streams or are refused.
void PortLoop::AcceptSome() {
  while (waiting_.size() < kWaitingMax) {
    auto socket = options_.accept();
    if (!socket) return CannotAccept(socket.error());
    if (!*socket) return;
    waiting_.push_back({std::move(*socket), platform::Now()});
  }
}

/// The connection keeps its listener readable, so that it must not be asked again at once.
void PortLoop::CannotAccept(const Error& error) {
  if (accept_pause_.Failed(platform::Now())) SayPort(error.message + "; clients wait");
}

void PortLoop::BeginWaiting(Instant now) {
  if (mux_.joined()) {
    for (Waiting& one : std::exchange(waiting_, {})) {
      const std::uint32_t stream = mux_.Open();
      if (stream == 0)
        Refuse(*net::AdoptLocal(std::move(one.socket), "", ""),
               options_.name + " carries " + std::to_string(locals_.size()) + " streams already; that is the most");
      else
        locals_.emplace(stream, Local{.socket = std::move(one.socket)});
    }
    return;
  }
  // Connections are in the order of their arrival.
  for (; !waiting_.empty() && now - waiting_.front().since >= kJoinWithin; waiting_.erase(waiting_.begin()))
    Refuse(*net::AdoptLocal(std::move(waiting_.front().socket), "", ""),
           "no answer from the host's end of " + options_.name +
               "; the host needs 'weir serve --guest SOCKET=VGPU', and a port of this machine that is connected to "
               "SOCKET");
}

bool PortLoop::IsIdle(Instant now) {
  if (!locals_.empty() || !waiting_.empty()) busy_ = now;
  return options_.idle_max > Duration::zero() && now - busy_ >= options_.idle_max;
}

// -- The loop --------------------------------------------------------------------------------------------------------

Duration PortLoop::WaitFor(Instant now) const {
  Instant until = now + seconds(60);
  if (port_) until = std::min(until, mux_.due());
  if (!port_ && options_.knock < 0 && !leaving_) until = std::min(until, opened_ + kOpenAgain);
  if (!waiting_.empty()) until = std::min(until, waiting_.front().since + kJoinWithin);
  if (options_.idle_max > Duration::zero()) until = std::min(until, busy_ + options_.idle_max);
  if (accept_pause_.Holds(now)) until = std::min(until, now + platform::AcceptPause::kPause);
  return std::max(until - now, Duration::zero());
}

/// Collects the descriptors for poll(2).
void PortLoop::Gather() {
  short port = MayAnswer() ? POLLIN : short{0};
  if (!mux_.Outgoing().empty()) port |= POLLOUT;
  const bool pausing = accept_pause_.Holds(platform::Now());
  watched_.assign({{options_.stop, POLLIN, 0},
                   {leaving_ ? -1 : options_.leave, POLLIN, 0},
                   {port_ ? port_->fd() : -1, port, 0},
                   {pausing ? -1 : options_.knock, POLLIN, 0},
                   {pausing || waiting_.size() >= kWaitingMax ? -1 : options_.listener, POLLIN, 0}});
  watched_streams_.clear();
  for (const auto& [stream, local] : locals_) {
    short events = !local.ended && MayRead() && mux_.Credit(stream) > 0 ? POLLIN : short{0};
    if (!local.coming.empty()) events |= POLLOUT;
    watched_.push_back({local.socket.get(), events, 0});
    watched_streams_.push_back(stream);
  }
}

int PortLoop::Watch(Duration rest) {
  const auto whole = std::chrono::duration_cast<seconds>(rest);
  const timespec time{.tv_sec = whole.count(), .tv_nsec = (rest - whole).count()};
  return ::ppoll(watched_.data(), watched_.size(), &time, nullptr);
}

/// Whether a port without a descriptor has data or room. Spins briefly if spinning has recently been successful.
bool PortLoop::LineIsReady() {
  if (!MayAnswer()) return false;
  const bool to_write = !mux_.Outgoing().empty();
  if (port_->Ready(to_write)) return true;
  const unsigned rounds = spin_.Rounds();
  for (unsigned round = 1; round <= rounds; ++round) {
    opencl::Pause();
    if (port_->Ready(to_write)) return spin_.Came(round), true;
  }
  if (rounds > 0) spin_.DidNotCome();
  return false;
}

int PortLoop::AwaitLooking(Duration rest) {
  if (const int ready = Watch(Duration::zero()); ready != 0 || LineIsReady()) return ready;
  return Watch(std::min(rest, pace_.Rest(platform::Now(), !locals_.empty() || !waiting_.empty())));
}

void PortLoop::Carry(Instant now) {
  constexpr short kEnds = POLLHUP | POLLERR | POLLNVAL;
  constexpr std::size_t kStreamsFrom = 5;  // of watched_
  if ((watched_[1].revents & POLLIN) != 0) Leave();
  if (MustLook() ? MayAnswer() : port_ && (watched_[2].revents & (POLLIN | kEnds)) != 0) ReadPort(now);
  if (options_.knock >= 0 && (watched_[3].revents & POLLIN) != 0) {
    if (port_) ReadPort(now);  // the peer may have closed the port and connected again
    port_ ? TurnAway() : OpenPort(now);
  }
  if ((watched_[4].revents & POLLIN) != 0) AcceptSome();
  // The first stream changes, so that no stream occupies the port alone.
  const std::size_t count = watched_streams_.size();
  const std::size_t first = count == 0 ? 0 : static_cast<std::size_t>(NsOf(now) / 1000) % count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t which = (first + i) % count;
    const short events = watched_[kStreamsFrom + which].revents;
    const std::uint32_t stream = watched_streams_[which];
    const bool hung_up = (events & kEnds) != 0;
    if ((events & POLLOUT) != 0 && !hung_up) WriteLocal(stream);
    if (hung_up || ((events & POLLIN) != 0 && MayRead())) ReadLocal(stream);
  }
}

void PortLoop::Leave() {
  leaving_ = true;
  if (std::exchange(options_.knock, -1) >= 0 && options_.close_knock) options_.close_knock();
}

Status PortLoop::Run() {
  ::prctl(PR_SET_TIMERSLACK, kSlackNs);  // with the default slack of 50 us, a rest of 20 us would take 70 us
  for (;;) {
    const Instant now = platform::Now();
    if (!port_ && options_.knock < 0 && !leaving_ && now - opened_ >= kOpenAgain) OpenPort(now);
    if (port_) mux_.Tick(now);
    BeginWaiting(now);
    WritePort(now);
    if (IsIdle(now)) return Ok();
    Gather();
    const Duration rest = WaitFor(now);
    if ((MustLook() ? AwaitLooking(rest) : Watch(rest)) < 0 && errno != EINTR)
      return platform::ErrnoError("waiting for " + options_.name, errno);
    if ((watched_[0].revents & POLLIN) != 0) return Ok();
    Carry(platform::Now());
  }
}

}  // namespace

Status RunPort(PortLoopOptions options) { return PortLoop(std::move(options)).Run(); }

}  // namespace weir::remote
