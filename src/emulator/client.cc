// SPDX-License-Identifier: Apache-2.0
#include "emulator/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>

#include "platform/clock.h"
#include "platform/unix_socket.h"

namespace weir::emulator {
namespace {

namespace wire = proto::emulator;
constexpr int kWelcomeWithinMs = 5'000;
constexpr int kSendWithinMs = 5'000;
/// An emulator that has just been started, or that takes over from another one, may not listen for this long.
constexpr Duration kListensWithin = seconds(2);

Result<platform::Fd> ConnectSoon(const std::string& socket) {
  const Instant until = platform::Now() + kListensWithin;
  for (;;) {
    auto connection = platform::ConnectSeqPacket(socket);
    if (connection || platform::Now() >= until) return connection;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

Client::Ending EndingOf(wire::Ending ending) {
  switch (ending) {
    case wire::Ending::kDone: return Client::Ending::kDone;
    case wire::Ending::kLost: return Client::Ending::kLost;
    case wire::Ending::kFull: return Client::Ending::kFull;
  }
  return Client::Ending::kLost;
}

Client::Room RoomOf(wire::Room room) {
  switch (room) {
    case wire::Room::kTaken: return Client::Room::kTaken;
    case wire::Room::kNone: return Client::Room::kNone;
    case wire::Room::kLost: return Client::Room::kLost;
  }
  return Client::Room::kNone;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::Connect(const std::string& socket, const std::string& program,
                                                std::function<void()> gone) {
  WEIR_TRY(platform::Fd connection, ConnectSoon(socket));
  std::unique_ptr<Client> client(new Client(std::move(connection), std::move(gone)));
  WEIR_TRY_STATUS(client->Welcome(program));
  // The client's thread blocks all signals, so that only threads of the program handle the program's signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  client->thread_ = std::thread([raw = client.get()] { raw->Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return client;
}

Status Client::Welcome(const std::string& program) {
  const Status sent = platform::SendPacket(
      socket_.get(), wire::Encode(wire::Hello{.program = program.substr(0, wire::kProgramBytesMax)}));
  // The emulator may have refused and closed the connection before the Hello was sent.
  if (!sent && !platform::WaitReadable(socket_.get(), 0)) return sent.error();
  if (!platform::WaitReadable(socket_.get(), kWelcomeWithinMs))
    return Fail(Errc::kTimeout, "the emulator does not answer");
  WEIR_TRY(const platform::Packet packet,
           platform::ReceivePacket(socket_.get(), wire::kMessageBytesMax, platform::Descriptors::kRefused));
  WEIR_TRY(const wire::Message message, wire::Decode(packet.bytes));
  WEIR_TRY(welcome_, ReadWelcome(message));
  return Ok();
}

Client::~Client() {
  ::shutdown(socket_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

// Only closes the descriptor, because at the fork other threads of the parent may have held any lock.
void Client::CloseInChild() noexcept { ::close(socket_.get()); }

bool Client::SendNow(const wire::Message& message) {
  if (over_) return false;
  // The lock is held while the socket is full, so that the messages of one queue keep their order.
  const std::vector<std::byte> packet = wire::Encode(message);
  for (;;) {
    const Status sent = platform::SendPacket(socket_.get(), packet);
    if (sent) return true;
    pollfd writable{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    if (sent.error().code != Errc::kTimeout || ::poll(&writable, 1, kSendWithinMs) <= 0) return false;
  }
}

bool Client::Send(std::uint64_t tag, const wire::Message& message, Done done) {
  outstanding_.emplace(tag, std::move(done));
  if (SendNow(message)) return true;
  outstanding_.erase(tag);
  return false;
}

bool Client::Submit(wire::Command command, Done done) {
  const std::lock_guard lock(mutex_);
  command.tag = next_tag_++;
  return Send(command.tag, wire::Submit{{command}}, std::move(done));
}

bool Client::Present(std::uint32_t device, std::uint32_t queue, std::uint32_t interval, Done done) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t tag = next_tag_++;
  return Send(tag, wire::Present{device, queue, interval, tag}, std::move(done));
}

Client::Room Client::Allocate(std::uint32_t device, Bytes bytes) {
  std::unique_lock lock(mutex_);
  const std::uint64_t tag = next_tag_++;
  const std::optional<Room>& answer = answers_[tag];
  if (SendNow(wire::Allocate{.device = device, .bytes = bytes.count, .tag = tag}))
    answered_.wait(lock, [&] { return answer.has_value() || over_; });
  const Room room = answer.value_or(Room::kGone);
  answers_.erase(tag);
  return room;
}

void Client::Free(std::uint32_t device, Bytes bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (!SendNow(wire::Free{.device = device, .bytes = bytes.count})) return;
  }
  // The emulator reads messages of different clients in any order. The answer to a later message of this client shows
  // that the emulator has read the Free, so that another client can allocate the memory.
  if (std::this_thread::get_id() != thread_.get_id()) Allocate(device, Bytes{});
}

void Client::Take(const wire::Completed& completed) {
  std::vector<std::pair<Done, wire::Completion>> ready;
  {
    const std::lock_guard lock(mutex_);
    for (const wire::Completion& one : completed.completions)
      if (auto done = outstanding_.extract(one.tag)) ready.emplace_back(std::move(done.mapped()), one);
  }
  for (auto& [done, one] : ready) done(InstantFromNs(one.began_ns), InstantFromNs(one.ended_ns), EndingOf(one.ending));
}

void Client::Run() {
  for (;;) {
    if (!platform::WaitReadable(socket_.get(), 60'000)) continue;
    const auto packet = platform::ReceivePacket(socket_.get(), wire::kMessageBytesMax, platform::Descriptors::kRefused);
    if (!packet && packet.error().code == Errc::kTimeout) continue;
    if (!packet || packet->bytes.empty()) break;
    const auto message = wire::Decode(packet->bytes);
    if (!message) break;
    if (const auto* completed = std::get_if<wire::Completed>(&*message)) Take(*completed);
    if (const auto* allocated = std::get_if<wire::Allocated>(&*message)) {
      const std::lock_guard lock(mutex_);
      if (const auto asked = answers_.find(allocated->tag); asked != answers_.end())
        asked->second = RoomOf(allocated->room);
      answered_.notify_all();
    }
  }
  std::map<std::uint64_t, Done> left;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    left.swap(outstanding_);
    answered_.notify_all();
  }
  for (auto& [tag, done] : left) done({}, {}, Ending::kGone);
  if (gone_) gone_();
}

}  // namespace weir::emulator
