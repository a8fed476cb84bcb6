// SPDX-License-Identifier: Apache-2.0
// The emulator's sockets and timer: one thread that carries packets to an Emulation and back. It sleeps on an absolute
// timer and never waits for a client.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "emulator/emulation.h"
#include "platform/accept_pause.h"
#include "platform/fd.h"

namespace weir::emulator {

/// How long after the model's times completions are sent.
class Lateness {
 public:
  void Add(Duration late);
  struct Figures {
    std::uint64_t count = 0;
    Duration median{}, p99{}, most{};
  };
  [[nodiscard]] Figures Now() const;

 private:
  static constexpr std::size_t kKept = 1 << 16;  // the last ones are kept
  std::vector<Duration> kept_;
  std::size_t next_ = 0;
  std::uint64_t count_ = 0;
};

class Service {
 public:
  static constexpr std::size_t kClientsMax = 1024;

  Service(Emulated emulated, platform::Fd listener);
  /// Runs until `stop` is readable, or until `parent` is readable and no client uses a device (-1: there is no parent).
  /// Returns errors of the system.
  Status Run(int stop, int parent = -1);
  [[nodiscard]] const Lateness& lateness() const { return lateness_; }

 private:
  struct Connection {
    platform::Fd socket;
    Emulation::ClientId client = 0;
    std::deque<std::vector<std::byte>> unsent;
    std::size_t unsent_bytes = 0;
    bool wants_write = false;
  };

  /// Whether the service is woken for connections that wait. It is not for a moment after accepting one has failed.
  void Listen(bool listens);
  void Accept();
  void Receive(int fd);
  void Send();
  void SendTo(Connection& connection, std::vector<std::byte> packet);
  void Flush(Connection& connection);
  void Watch(Connection& connection, bool write);
  void Drop(int fd, const std::string& why);
  void SetTimer();
  void AddLateness(proto::emulator::Message& message, Instant now);

  Emulation emulation_;
  platform::Fd listener_, epoll_, timer_;
  std::map<int, Connection> connections_;           // by descriptor
  std::map<Emulation::ClientId, int> descriptors_;  // by client
  std::vector<std::pair<int, std::string>> to_drop_;
  bool listens_ = true;
  platform::AcceptPause accept_pause_;
  Instant timer_at_ = core::DeviceModel::kNoEvent;
  Lateness lateness_;
};

}  // namespace weir::emulator
