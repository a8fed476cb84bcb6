// SPDX-License-Identifier: Apache-2.0
#include "remote/portal.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <list>
#include <mutex>
#include <thread>

#include "base/printable.h"
#include "net/crew.h"
#include "net/door.h"
#include "net/keys.h"
#include "net/tcp_socket.h"
#include "net/tcp_stream.h"
#include "opencl/channel/handshake.h"
#include "platform/accept_pause.h"
#include "platform/clock.h"
#include "platform/failure_lines.h"
#include "proto/network_frames.h"
#include "remote/drain_watch.h"
#include "remote/handshake.h"
#include "remote/keep_awake.h"
#include "remote/pump.h"

namespace weir::remote {
namespace {

constexpr int kTickMs = 100;

void SayPortal(const std::string& text) { std::fprintf(stderr, "weir-portal: %s\n", text.c_str()); }

class Portal {
 public:
  explicit Portal(PortalOptions options) : options_(std::move(options)), leave_(options_.asks) {}
  Status Run();

 private:
  void Serve(platform::Fd socket, net::Door::Place& place);
  void Carry(net::Stream& stream, net::Door::Place& place);
  Result<opencl::Connection> Admit(net::Stream& stream, net::Door::Place& place, Greeting& greeting,
                                   std::int64_t& came_ns);
  Status Name(net::Stream& stream, net::Door::Place& place, const std::string& vgpu);
  void Cut();
  void SeeWhoLeaves();
  void SayFailed(platform::FailureLines& lines, std::string why);
  void SayCounts();

  /// A connection between its Welcome and its end.
  struct Carried {
    std::string vgpu;
    Line& line;
    std::string told{};  // the reason of the drain request that was sent last; empty: none is in effect
  };

  PortalOptions options_;
  net::Door door_;
  std::mutex mutex_;
  std::list<net::Stream*> open_;
  std::list<Carried> carried_;
  bool ending_ = false;
  // What the log says of connections that failed before their peer was known, that were refused, and that were cut off.
  platform::FailureLines unknown_, refused_, cut_off_;
  DrainWatch leave_;
  KeepAwake awake_;
  net::Crew crew_;  // last, because its threads use the other members
};

Status Portal::Name(net::Stream& stream, net::Door::Place& place, const std::string& vgpu) {
  if (place.Name(vgpu)) return Ok();
  const std::string why = "'" + vgpu + "' has too many connections by this portal";
  Refuse(stream, why);
  return Fail(Errc::kResourceExhausted, stream.peer() + ": " + why);
}

/// Receives the client's Hello and connects to the executor of its vGPU. The vGPU is that of the token or, on a plain
/// portal, the one that the Hello names; `greeting` then contains it. A client that is refused is sent the reason.
Result<opencl::Connection> Portal::Admit(net::Stream& stream, net::Door::Place& place, Greeting& greeting,
                                         std::int64_t& came_ns) {
  // A vGPU named by the token counts against its limit before the Hello is awaited.
  if (!options_.plain) WEIR_TRY_STATUS(Name(stream, place, stream.peer_name()));
  WEIR_TRY(greeting, ReceiveHello(stream));
  came_ns = platform::NowNs();
  if (!options_.plain) greeting.vgpu = stream.peer_name();
  const std::string& vgpu = greeting.vgpu;
  if (!net::CheckKeyName(vgpu)) {  // the name becomes part of a path
    const std::string why =
        vgpu.empty() ? "the connection names no vGPU: give --vgpu" : "'" + Printable(vgpu) + "' names no vGPU";
    Refuse(stream, why);
    return Fail(Errc::kPermissionDenied, stream.peer() + ": " + why);
  }
  if (options_.plain) WEIR_TRY_STATUS(Name(stream, place, vgpu));
  auto connection = opencl::Connect(options_.executors + "/" + vgpu + ".sock", greeting.program + "@" + stream.peer(),
                                    /*remote=*/true);
  if (connection) return connection;
  const Errc code = connection.error().code;
  const bool absent = code == Errc::kNotFound || code == Errc::kUnavailable;
  const std::string why = absent
                              ? "this node has no vGPU '" + vgpu + "' for OpenCL; 'weir vgpu create " + vgpu + "' there"
                              : connection.error().message;
  Refuse(stream, why);
  return Fail(code, stream.peer() + ": " + why);
}

void Portal::Carry(net::Stream& stream, net::Door::Place& place) {
  Greeting greeting;
  std::int64_t came_ns = 0;
  auto connection = Admit(stream, place, greeting, came_ns);
  if (!connection) return SayFailed(refused_, connection.error().message);
  place.Admitted();
  const std::string& vgpu = greeting.vgpu;
  const NodeArena arena{.bytes = connection->arena.bytes(), .staging = connection->staging_bytes};
  Line line{.channel = std::move(connection->channel),
            .arena = std::move(connection->arena),
            .arena_file = std::move(connection->arena_file),
            .buffers = std::move(connection->buffers),
            .buffers_file = std::move(connection->buffers_file),
            .awake = &awake_};
  if (const Status sent = SendWelcome(stream, vgpu, arena, came_ns); !sent)
    return SayFailed(refused_, sent.error().message);
  if (!options_.quiet) SayPortal(stream.peer() + " is connected to '" + vgpu + "'");
  const int socket = connection->socket.get();
  OutPump out(line, stream, OutPump::Side::kExecutors);
  LineSink sink(line);
  InPump in(line.stop, stream, line.awake);
  const auto end = [&](const Status& status) {
    if (!line.stop.exchange(true) && !status && status.error().code == Errc::kProtocol)
      SayFailed(cut_off_, stream.peer() + " is cut off: " + status.error().message);
    stream.Shutdown();
  };
  auto carried = carried_.end();
  {
    const std::lock_guard lock(mutex_);
    carried = carried_.insert(carried_.end(), Carried{.vgpu = vgpu, .line = line});
  }
  // A connection that arrives during a drain request receives the request too.
  line.knock.store(true);
  const auto ask_to_leave = [&] {
    const std::string why = leave_.Why(vgpu);
    if (greeting.version < proto::net::kVersionMoveWanted || why == carried->told) return;
    if (!SendMoveWanted(stream, why, line.stop)) return;  // the pump reports the same error
    const std::lock_guard lock(mutex_);
    carried->told = why;
  };
  {
    net::Crew reader;  // one thread
    if (reader.Start([&] { end(in.Run(sink)); }))
      end(out.Run([&] { return opencl::StillConnected(socket); }, ask_to_leave));
    else
      SayPortal(stream.peer() + ": no thread can be started for its messages");
  }
  {
    const std::lock_guard lock(mutex_);
    carried_.erase(carried);
  }
  if (!options_.quiet) SayPortal(stream.peer() + " has left '" + vgpu + "'");
}

void Portal::Serve(platform::Fd socket, net::Door::Place& place) {
  auto stream = options_.identify(std::move(socket));
  if (!stream) return SayFailed(unknown_, stream.error().message);
  auto at = open_.end();
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    at = open_.insert(open_.end(), stream->get());
  }
  Carry(**stream, place);
  const std::lock_guard lock(mutex_);
  open_.erase(at);
}

void Portal::Cut() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  for (net::Stream* stream : open_) stream->Shutdown();
}

/// Tells connections to check for drain requests between two of their messages, and reports the counts to the daemon.
void Portal::SeeWhoLeaves() {
  const bool changed = leave_.Look(platform::Now());
  const std::vector<std::string> asked = leave_.Requested();
  std::vector<proto::DrainState> here;
  const std::lock_guard lock(mutex_);
  for (const std::string& vgpu : asked) {
    proto::DrainState counts{.vgpu = vgpu};
    for (const Carried& one : carried_) {
      if (one.vgpu != vgpu) continue;
      ++counts.here;
      counts.asked += one.told.empty() ? 0 : 1;
    }
    here.push_back(std::move(counts));
  }
  if (changed)
    for (Carried& one : carried_) one.line.knock.store(true);
  leave_.Say(here);
}

/// Logs why a connection has failed, or counts it.
void Portal::SayFailed(platform::FailureLines& lines, std::string why) {
  std::string said;
  {
    const std::lock_guard lock(mutex_);
    said = lines.Failed(platform::Now(), std::move(why));
  }
  if (!said.empty()) SayPortal(said);
}

/// Logs how many connections have failed and were only counted, at most once a minute.
void Portal::SayCounts() {
  for (platform::FailureLines* const lines : {&unknown_, &refused_, &cut_off_}) {
    std::string said;
    {
      const std::lock_guard lock(mutex_);
      said = lines->Due(platform::Now());
    }
    if (!said.empty()) SayPortal(said);
  }
}

Status Portal::Run() {
  bool leaving = false;
  platform::AcceptPause pause;
  for (;;) {
    pollfd watched[3] = {{leaving || pause.Holds(platform::Now()) ? -1 : options_.listener, POLLIN, 0},
                         {options_.stop, POLLIN, 0},
                         {leaving ? -1 : options_.parent, POLLIN, 0}};
    if (::poll(watched, 3, kTickMs) < 0 && errno != EINTR) return platform::ErrnoError("waiting for peers", errno);
    const std::size_t at_work = crew_.Reap();
    SeeWhoLeaves();
    SayCounts();
    if ((watched[1].revents & POLLIN) != 0) {
      Cut();
      return Ok();
    }
    if ((watched[2].revents & POLLIN) != 0) {
      leaving = true;
      if (options_.close_listener) options_.close_listener();
    }
    if (leaving && at_work == 0) return Ok();
    if (leaving || (watched[0].revents & POLLIN) == 0) continue;
    WEIR_TRY(platform::Fd socket, options_.accept());
    if (!socket) {
      // No connection was pending, or no descriptors are left.
      static_cast<void>(pause.Failed(platform::Now()));
      continue;
    }
    // Closed without a reply, so that a program with a valid token tries again.
    std::shared_ptr<net::Door::Place> place = door_.Come(net::NetworkOf(socket.get()), net::EndOf(socket));
    if (!place) continue;
    const bool started = crew_.Start([this, place, shared = std::make_shared<platform::Fd>(std::move(socket))] {
      Serve(std::move(*shared), *place);
    });
    if (!started && pause.Failed(platform::Now())) SayPortal("no thread can be started for a connection; it is closed");
  }
}

}  // namespace

Status RunPortal(PortalOptions options) { return Portal(std::move(options)).Run(); }

}  // namespace weir::remote
