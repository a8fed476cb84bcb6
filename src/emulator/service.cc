// SPDX-License-Identifier: Apache-2.0
#include "emulator/service.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "platform/clock.h"
#include "platform/process.h"
#include "platform/unix_socket.h"

namespace weir::emulator {
namespace {

namespace wire = proto::emulator;

/// A client that leaves this much unread is dropped.
constexpr std::size_t kUnsentBytesMax = 4 << 20;
constexpr int kPacketsAtOnce = 64;  // of one client, before others are served

}  // namespace

void Lateness::Add(Duration late) {
  ++count_;
  if (kept_.size() < kKept) {
    kept_.push_back(late);
    return;
  }
  kept_[next_] = late;
  next_ = (next_ + 1) % kKept;
}

Lateness::Figures Lateness::Now() const {
  if (kept_.empty()) return {};
  std::vector<Duration> sorted = kept_;
  std::ranges::sort(sorted);
  return {.count = count_,
          .median = sorted[sorted.size() / 2],
          .p99 = sorted[sorted.size() * 99 / 100],
          .most = sorted.back()};
}

Service::Service(Emulated emulated, platform::Fd listener)
    : emulation_(std::move(emulated)),
      listener_(std::move(listener)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {}

Status Service::Run(int stop, int parent) {
  if (!epoll_ || !timer_) return platform::ErrnoError("making a timer", errno);
  // With a higher priority, if it is allowed, a completion that is due does not wait for other processes' time slices.
  platform::PreferQuickWakeups();
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  bool has_parent = parent >= 0;
  for (const int fd : {listener_.get(), timer_.get(), stop, parent}) {
    if (fd < 0) continue;
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return platform::ErrnoError("watching", errno);
  }
  for (;;) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll_.get(), events, 64, -1);
    if (count < 0 && errno != EINTR) return platform::ErrnoError("waiting for drivers", errno);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop) return Ok();
      if (fd == parent) {
        has_parent = false;
        static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, parent, nullptr));
      } else if (fd == listener_.get()) {
        Accept();
      } else if (fd == timer_.get()) {
        std::uint64_t expired = 0;
        [[maybe_unused]] const ssize_t got = ::read(fd, &expired, sizeof expired);
        timer_at_ = core::DeviceModel::kNoEvent;
      } else if (connections_.contains(fd)) {
        if ((events[i].events & EPOLLOUT) != 0) Flush(connections_.at(fd));
        if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Receive(fd);
      }
    }
    const Instant now = platform::Now();
    Listen(!accept_pause_.Holds(now));
    emulation_.Advance(now);
    Send();
    for (const auto& [fd, why] : std::exchange(to_drop_, {})) Drop(fd, why);
    SetTimer();
    if (parent >= 0 && !has_parent && !emulation_.InUse()) return Ok();
  }
}

void Service::Listen(bool listens) {
  if (listens_ == listens) return;
  listens_ = listens;
  epoll_event event{.events = listens ? EPOLLIN : 0U, .data = {.fd = listener_.get()}};
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &event));
}

void Service::Accept() {
  platform::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    if (accept_pause_.Failed(platform::Now()))
      std::fprintf(stderr, "weir-emulated-gpu: programs can't connect now: %s\n", std::strerror(errno));
    return Listen(false);
  }
  const auto peer = platform::PeerOf(socket.get());
  if (!peer || connections_.size() >= kClientsMax) {
    const wire::Refusal refusal{"the emulator has " + std::to_string(kClientsMax) + " clients already"};
    return platform::SendLastPacket(std::move(socket), wire::Encode(refusal));
  }
  const int fd = socket.get();
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return;
  const Emulation::ClientId client = emulation_.Enter(peer->pid, peer->uid);
  connections_[fd] = {.socket = std::move(socket), .client = client, .unsent = {}};
  descriptors_[client] = fd;
}

void Service::Receive(int fd) {
  const Connection& connection = connections_.at(fd);
  for (int i = 0; i < kPacketsAtOnce; ++i) {
    auto packet = platform::ReceivePacket(fd, wire::kMessageBytesMax, platform::Descriptors::kRefused);
    if (!packet && packet.error().code == Errc::kTimeout) return;
    if (!packet || packet->bytes.empty()) return Drop(fd, packet ? "" : packet.error().message);
    if (const Status taken = emulation_.Take(platform::Now(), connection.client, packet->bytes); !taken)
      return Drop(fd, taken.error().message);
  }
}

/// `why` empty: the client has closed its connection.
void Service::Drop(int fd, const std::string& why) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  if (!why.empty()) {
    std::fprintf(stderr, "weir-emulated-gpu: dropped a client: %s\n", why.c_str());
    platform::SendLastPacket(std::move(found->second.socket), wire::Encode(wire::Refusal{why}));
  }
  emulation_.Leave(platform::Now(), found->second.client);
  descriptors_.erase(found->second.client);
  connections_.erase(found);
}

/// Records how late completions are, and adds these figures to accounts.
void Service::AddLateness(wire::Message& message, Instant now) {
  if (const auto* completed = std::get_if<wire::Completed>(&message)) {
    for (const wire::Completion& one : completed->completions)
      if (one.ending == wire::Ending::kDone) lateness_.Add(now - InstantFromNs(one.ended_ns));
  } else if (auto* accounts = std::get_if<wire::Accounts>(&message)) {
    nlohmann::ordered_json text = nlohmann::ordered_json::parse(accounts->text);
    const Lateness::Figures figures = lateness_.Now();
    text["lateness"] = {{"count", figures.count},
                        {"median_ns", figures.median.count()},
                        {"p99_ns", figures.p99.count()},
                        {"max_ns", figures.most.count()}};
    accounts->text = text.dump();
  }
}

void Service::Send() {
  const Instant now = platform::Now();
  for (Emulation::Outgoing& out : emulation_.outgoing()) {
    const auto found = descriptors_.find(out.client);
    if (found == descriptors_.end()) continue;
    AddLateness(out.message, now);
    SendTo(connections_.at(found->second), wire::Encode(out.message));
  }
  emulation_.outgoing().clear();
}

void Service::SendTo(Connection& connection, std::vector<std::byte> packet) {
  if (connection.unsent.empty()) {
    const Status sent = platform::SendPacket(connection.socket.get(), packet);
    if (sent) return;
    if (sent.error().code != Errc::kTimeout) return;  // the client has gone, which epoll reports
  }
  connection.unsent_bytes += packet.size();
  connection.unsent.push_back(std::move(packet));
  if (connection.unsent_bytes > kUnsentBytesMax) {
    to_drop_.emplace_back(connection.socket.get(), "it does not read what it is sent");
    return;
  }
  Watch(connection, true);
}

void Service::Flush(Connection& connection) {
  while (!connection.unsent.empty()) {
    const Status sent = platform::SendPacket(connection.socket.get(), connection.unsent.front());
    if (!sent && sent.error().code == Errc::kTimeout) return;
    connection.unsent_bytes -= connection.unsent.front().size();
    connection.unsent.pop_front();
  }
  Watch(connection, false);
}

void Service::Watch(Connection& connection, bool write) {
  if (connection.wants_write == write) return;
  connection.wants_write = write;
  epoll_event event{.events = EPOLLIN | (write ? EPOLLOUT : 0U), .data = {.fd = connection.socket.get()}};
  static_cast<void>(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event));
}

void Service::SetTimer() {
  Instant next = emulation_.NextEvent();
  if (!listens_) next = std::min(next, platform::Now() + platform::AcceptPause::kPause);
  if (next == timer_at_) return;
  timer_at_ = next;
  itimerspec at{};  // zero: no timer
  if (next != core::DeviceModel::kNoEvent) {
    const std::int64_t ns = std::max<std::int64_t>(NsOf(next), 1);
    at.it_value = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  }
  static_cast<void>(::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr));
}

}  // namespace weir::emulator
