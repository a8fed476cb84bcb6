// SPDX-License-Identifier: Apache-2.0
// The daemon's end of one or more gates in a separate thread: accepts attachments, sends heartbeats, records detached
// processes. Makes no decisions: the test or benchmark sets modes and allowances through With().
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gate/host.h"
#include "platform/clock.h"

namespace weir::testing {

class GateHost {
 public:
  /// A detached process: its reservation at its end, and its records that were not drained before.
  struct Ended {
    gate::ProcessInfo info;
    std::int64_t reserved_ns = 0;
    gate::Drained drained;
  };

  GateHost() : stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { Run(); }) {}
  explicit GateHost(const std::string& socket_path, const proto::CpuMask& cpus = {}) : GateHost() {
    Add(socket_path, cpus);
  }
  /// Like the daemon's death: sockets are closed without a message.
  ~GateHost() {
    stopping_ = true;
    Nudge();
    thread_.join();
  }
  GateHost(const GateHost&) = delete;
  GateHost& operator=(const GateHost&) = delete;

  /// Opens a gate; the first gate has index 0.
  std::size_t Add(const std::string& socket_path, const proto::CpuMask& cpus = {}, uid_t owner = ::geteuid()) {
    const std::lock_guard lock(mutex_);
    auto made = gate::VgpuGate::Make(VgpuId{gates_.size() + 1}, socket_path, owner, cpus, platform::NowNs());
    WEIR_CHECK(made.has_value());
    gates_.push_back(std::move(*made));
    Nudge();
    return gates_.size() - 1;
  }

  /// Runs `use` on a gate while the host's thread does not touch it.
  template <typename F>
  auto With(std::size_t index, F use) {
    const std::lock_guard lock(mutex_);
    return use(*gates_.at(index));
  }
  template <typename F>
  auto With(F use) {
    return With(0, std::move(use));
  }

  // Common operations of tests.
  void SetMode(proto::GateMode mode, std::size_t index = 0) {
    With(index, [mode](gate::VgpuGate& gate) { gate.Publish({.mode = mode}); });
  }
  void SetAllowance(std::int64_t allowance_ns, std::size_t index = 0) {
    With(index, [=](gate::VgpuGate& gate) { gate.Grant(allowance_ns - gate.AllowanceNs()); });
  }
  void Wake(std::size_t index = 0) {
    With(index, [](gate::VgpuGate& gate) { gate.Wake(); });
  }
  std::int64_t AllowanceNs(std::size_t index = 0) {
    return With(index, [](gate::VgpuGate& gate) { return gate.AllowanceNs(); });
  }
  /// Of the vGPU's first process.
  std::int64_t ReservedNs(std::size_t index = 0) {
    return With(index, [](gate::VgpuGate& gate) { return gate.processes().begin()->second->ReservedNs(); });
  }
  std::size_t Processes(std::size_t index = 0) {
    return With(index, [](gate::VgpuGate& gate) { return gate.processes().size(); });
  }
  std::uint32_t Waiting(std::size_t index = 0) { return Sum(index, &gate::ProcessGate::Waiting); }
  std::uint32_t InFlight(std::size_t index = 0) { return Sum(index, &gate::ProcessGate::InFlight); }
  gate::Drained Drain(std::size_t index = 0) {
    return With(index, [](gate::VgpuGate& gate) {
      gate::Drained drained;
      for (const auto& [id, process] : gate.processes()) process->Drain(platform::NowNs(), drained);
      return drained;
    });
  }

  /// Forgets detached processes, including an agent that gave up before its attachment was accepted.
  void Settle() {
    const std::lock_guard lock(mutex_);
    for (const auto& gate : gates_) Serve(*gate);
    std::erase_if(pending_, [this](Pending& pending) { return Answer(pending); });
    for (const auto& gate : gates_) Serve(*gate);
  }

  /// Sets the process that always gets a place.
  void SetExecutor(pid_t pid) { executor_pid_ = pid; }
  /// Sets how many places each vGPU has for processes.
  void SetPlaces(std::size_t most) { places_ = most; }

  std::vector<Ended> ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  /// The number of refused connections.
  std::size_t refused() {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  Error last_refusal() {
    const std::lock_guard lock(mutex_);
    return last_refusal_;
  }
  [[nodiscard]] std::uint64_t attachments() const { return next_process_ - 1; }

  /// Stops heartbeats; the last one then appears to be `age` old.
  void StopHeart(Duration age) {
    const std::lock_guard lock(mutex_);
    beating_ = false;
    for (const auto& gate : gates_) gate->Beat(platform::NowNs() - age.count());
  }
  /// Leaves the agents' packets to the test, which reads them from ProcessGate::socket().
  void LeaveAcksUnread() {
    const std::lock_guard lock(mutex_);
    read_acks_ = false;
    Nudge();
  }

 private:
  struct Pending {
    gate::VgpuGate* gate;
    platform::Fd connection;
  };

  /// A process of a gate. Gates are never removed; a process may have left.
  struct Seat {
    gate::VgpuGate* gate;
    ProcessId id;
  };

  void Nudge() const {
    const std::uint64_t one = 1;
    WEIR_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
  }

  std::uint32_t Sum(std::size_t index, std::uint32_t (gate::ProcessGate::*count)() const) {
    return With(index, [count](gate::VgpuGate& gate) {
      std::uint32_t sum = 0;
      for (const auto& [id, process] : gate.processes()) sum += ((*process).*count)();
      return sum;
    });
  }

  // Among thousands of processes, only those with something to read are looked at.
  void Run() {
    std::vector<pollfd> entries;
    std::vector<Seat> seats;  // of the first entries
    while (!stopping_) {
      {
        const std::lock_guard lock(mutex_);
        entries.clear();
        seats.clear();
        for (const auto& gate : gates_)
          for (const auto& [id, process] : gate->processes()) {
            entries.push_back({process->socket(), static_cast<short>(read_acks_ ? POLLIN : POLLRDHUP), 0});
            seats.push_back({gate.get(), id});
          }
        for (const auto& gate : gates_) entries.push_back({gate->listener(), POLLIN, 0});
        for (const Pending& pending : pending_) entries.push_back({pending.connection.get(), POLLIN, 0});
        entries.push_back({stop_.get(), POLLIN, 0});
      }
      ::poll(entries.data(), entries.size(), 20);
      std::uint64_t nudges = 0;
      static_cast<void>(!::read(stop_.get(), &nudges, sizeof nudges));
      const std::lock_guard lock(mutex_);
      for (const auto& gate : gates_) Accept(*gate);
      for (std::size_t i = 0; i < seats.size(); ++i)
        if (entries[i].revents != 0) ForgetIfItLeft(seats[i]);
      std::erase_if(pending_, [this](Pending& pending) { return Answer(pending); });
    }
  }

  void Serve(gate::VgpuGate& gate) {
    Accept(gate);
    std::vector<ProcessId> ids;
    for (const auto& [id, process] : gate.processes()) ids.push_back(id);
    for (const ProcessId id : ids) ForgetIfItLeft({&gate, id});
  }

  void Accept(gate::VgpuGate& gate) {
    if (beating_) gate.Beat(platform::NowNs());
    for (;;) {
      auto connection = gate.Accept();
      if (connection) {
        pending_.push_back({&gate, std::move(*connection)});
      } else if (connection.error().code == Errc::kPermissionDenied) {
        ++refused_;
        last_refusal_ = std::move(connection).error();
      } else {
        break;
      }
    }
  }

  void ForgetIfItLeft(const Seat& seat) {
    const auto found = seat.gate->processes().find(seat.id);
    if (found == seat.gate->processes().end() || !HasLeft(*found->second)) return;
    gate::ProcessGate& process = *found->second;
    ended_.push_back({process.Info(), process.ReservedNs(), {}});
    process.Drain(platform::NowNs(), ended_.back().drained);
    seat.gate->Detach(seat.id);
  }

  bool HasLeft(gate::ProcessGate& process) const {
    if (read_acks_) return !process.ReadAcks();
    pollfd entry{process.socket(), POLLRDHUP, 0};
    return ::poll(&entry, 1, 0) > 0;
  }

  /// True: the connection was accepted or refused.
  bool Answer(Pending& pending) {
    if (!platform::WaitReadable(pending.connection.get(), 0)) return false;
    auto welcome = pending.gate->Welcome(std::move(pending.connection), ProcessId{next_process_},
                                         {.most = places_, .executor_pid = executor_pid_});
    if (welcome) {
      ++next_process_;
    } else {
      ++refused_;
      last_refusal_ = std::move(welcome).error();
    }
    return true;
  }

  std::mutex mutex_;  // guards all but the atomics
  std::vector<std::unique_ptr<gate::VgpuGate>> gates_;
  std::list<Pending> pending_;
  std::vector<Ended> ended_;
  std::size_t refused_ = 0;
  std::atomic<pid_t> executor_pid_{0};
  std::atomic<std::size_t> places_{gate::kProcessesPerVgpuMax};
  Error last_refusal_;
  bool beating_ = true;
  bool read_acks_ = true;
  std::atomic<std::uint64_t> next_process_{1};
  std::atomic<bool> stopping_{false};
  platform::Fd stop_;
  std::thread thread_;
};

}  // namespace weir::testing
