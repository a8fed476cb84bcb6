// SPDX-License-Identifier: Apache-2.0
#include "remote/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>

#include "opencl/channel/handshake.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "proto/opencl_messages.h"
#include "remote/crew.h"
#include "remote/handshake.h"
#include "remote/pump.h"

namespace weir::remote {
namespace {

constexpr Duration kTick = milliseconds(100);
constexpr Duration kFresh = seconds(5);
constexpr int kHelloWaitMs = 2'000;
constexpr std::size_t kClientsMax = 256;

void SayRelay(const std::string& text) { std::fprintf(stderr, "weir: %s\n", text.c_str()); }

/// The node has let this one in.
struct Entered {
  std::unique_ptr<net::Stream> stream;
  Entry entry;
};

/// An event's times are of the node's clock, which is ahead of ours by so much, as far as is known. What has ended has
/// ended before we hear of it, which bounds that.
void MoveTimes(std::span<std::byte> message, std::int64_t& ahead_ns) {
  namespace cl = proto::cl;
  cl::Header header;
  if (!cl::ReadHeader(message, header) || header.op != static_cast<std::uint16_t>(cl::Op::kEventDone)) return;
  cl::EventDone done;
  if (!cl::Decode(message, done)) return;
  const auto end_ns = static_cast<std::int64_t>(done.end_ns);
  if (end_ns != 0) ahead_ns = std::max(ahead_ns, end_ns - platform::NowNs());
  for (std::uint64_t* at : {&done.queued_ns, &done.submit_ns, &done.start_ns, &done.end_ns})
    if (*at != 0) *at = static_cast<std::uint64_t>(static_cast<std::int64_t>(*at) - ahead_ns);
  if (cl::SizeOf(done) == message.size()) cl::EncodeInto(done, message);
}

class Relay {
 public:
  explicit Relay(RelayOptions options) : options_(std::move(options)) {}
  Status Run();

 private:
  Result<Entered> EnterNode();
  void Serve(platform::Fd client);

  RelayOptions options_;
  std::mutex first_mutex_;
  std::optional<Entered> first_;  // the connection that showed that it may; the first client's, if it comes soon
  std::int64_t entered_ns_ = 0;
  Crew crew_;
};

Result<Entered> Relay::EnterNode() {
  {
    const std::lock_guard lock(first_mutex_);
    if (first_) {
      Entered first = std::move(*first_);
      first_.reset();
      if (platform::NowNs() - entered_ns_ < kFresh.count()) return first;  // else the node may have gone meanwhile
    }
  }
  Entered entered;
  WEIR_TRY(entered.stream, options_.connect());
  WEIR_TRY(entered.entry, Enter(*entered.stream, {.vgpu = options_.vgpu, .program = options_.program}));
  return entered;
}

void Relay::Serve(platform::Fd client) {
  const int socket = client.get();
  auto entered = EnterNode();
  if (!entered) {
    const std::string& why = entered.error().message;
    SayRelay(why);
    // Its Hello is taken, or closing would take the answer away from it.
    if (platform::WaitReadable(socket, kHelloWaitMs))
      static_cast<void>(
          platform::ReceivePacket(socket, proto::cl::kHandshakeBytesMax, platform::Descriptors::kRefused));
    static_cast<void>(platform::SendPacket(
        socket, proto::cl::Encode(proto::cl::Welcome{.magic = proto::cl::kHelloMagic, .refusal = why})));
    return;
  }
  // Who connects says Hello at once.
  if (!platform::WaitReadable(socket, kHelloWaitMs)) return;
  auto accepted = opencl::Welcome(std::move(client), ::getuid(), entered->entry.arena_bytes);
  if (!accepted) return SayRelay(accepted.error().message);
  Line line{.channel = std::move(accepted->channel), .arena = std::move(accepted->arena)};
  net::Stream& stream = *entered->stream;
  OutPump out(line, stream, OutPump::Side::kClients);
  InPump in(line, stream,
            [ahead_ns = entered->entry.ahead_ns](std::span<std::byte> m) mutable { MoveTimes(m, ahead_ns); });
  std::thread reader([&] {
    const Status status = in.Run();
    if (!line.stop.exchange(true) && !status) SayRelay(accepted->program + ": " + status.error().message);
    ::shutdown(socket, SHUT_RDWR);  // the client sees that its device is gone
  });
  const Status status = out.Run([&] { return opencl::StillConnected(socket); });
  if (!line.stop.exchange(true) && !status) SayRelay(accepted->program + ": " + status.error().message);
  stream.Shutdown();
  reader.join();
}

Status Relay::Run() {
  WEIR_TRY(first_, EnterNode());
  entered_ns_ = platform::NowNs();
  platform::Fd parent;
  if (options_.parent != 0) {
    auto opened = platform::OpenPidFd(options_.parent);
    if (!opened) return Ok();  // gone already
    parent = std::move(*opened);
  }
  if (options_.when_ready) options_.when_ready();
  bool alone = false;
  for (;;) {
    pollfd watched[2] = {{options_.listener.get(), POLLIN, 0}, {alone ? -1 : parent.get(), POLLIN, 0}};
    if (::poll(watched, 2, static_cast<int>(kTick.count() / 1'000'000)) < 0 && errno != EINTR)
      return platform::ErrnoError("waiting for clients", errno);
    const std::size_t at_work = crew_.Reap();
    if ((watched[1].revents & POLLIN) != 0) alone = true;
    if (alone && at_work == 0) return Ok();
    if ((watched[0].revents & POLLIN) == 0) continue;
    platform::Fd client(::accept4(options_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client || at_work >= kClientsMax) continue;
    crew_.Start([this, shared = std::make_shared<platform::Fd>(std::move(client))] { Serve(std::move(*shared)); });
  }
}

}  // namespace

Status RunRelay(RelayOptions options) { return Relay(std::move(options)).Run(); }

}  // namespace weir::remote
