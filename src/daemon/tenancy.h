// SPDX-License-Identifier: Apache-2.0
// The daemon's runtime state of one vGPU, beside the engine's record. Private to the node.
#pragma once

#include <algorithm>
#include <optional>
#include <set>

#include "daemon/gate_absence.h"
#include "daemon/node.h"
#include "platform/pending_peers.h"

namespace weir::daemon {

/// A connection that has not sent Hello yet. The watch is destroyed before the connection that it watches.
struct Node::Pending {
  platform::Fd connection;
  std::unique_ptr<FdWatch> watch;
};

struct Node::Tenancy {
  SavedVgpu saved;
  std::unique_ptr<gate::VgpuGate> gate;
  proto::GateMode mode = proto::GateMode::kOpen;
  std::uint32_t doorbell_wanted = 0;  // as last written
  bool attached = false;              // it is in Node::attached_
  bool sampled = false;               // it is in Node::sampled_
  bool resting = false;               // as the engine last said
  std::int64_t rests_at_ns = 0;       // the allowance when the gate was last sampled, while the vGPU rests
  FrameLog frames;
  std::optional<Instant> full_said;   // when an event last reported a process that found no place
  std::uint64_t memory_refused = 0;   // allocations and commands that had no memory
  std::uint64_t refused_said = 0;     // of these, the ones that events have reported
  std::optional<Instant> refused_at;  // when an event last reported them
  std::unique_ptr<ExecutorHost> executor;
  std::set<ProcessId> executors;  // attached executors; only their memory statistics count
  GateAbsence gate_absence;       // of the executor that this daemon has started

  // Watches are destroyed before what they watch.
  std::unique_ptr<FdWatch> listener_watch;
  std::unique_ptr<FdWatch> doorbell_watch;
  std::map<ProcessId, std::unique_ptr<FdWatch>> socket_watches;
  platform::PendingPeers<Pending> pending{kPendingPerUidMax, kHelloWithin};
  platform::Fd owner;  // pidfd of the program that owns an ephemeral vGPU
  std::unique_ptr<FdWatch> owner_watch;
  bool owner_ended = false;

  /// Whether the gate of this resting vGPU has changed since it was last sampled. Housekeeping checks this, because
  /// agents may fail to ring the doorbell.
  [[nodiscard]] bool Moved() const {
    if (gate->AllowanceNs() != rests_at_ns) return true;
    return std::ranges::any_of(gate->processes(), [](const auto& process) {
      return process.second->Waiting() > 0 || process.second->InFlight() > 0;
    });
  }
  /// Adds `point` to the points at which agents ring the doorbell, or removes it. Returns whether that is a change.
  bool WantBell(std::uint32_t point, bool wanted) {
    const std::uint32_t points = wanted ? doorbell_wanted | point : doorbell_wanted & ~point;
    if (points == doorbell_wanted) return false;
    doorbell_wanted = points;
    gate->WantDoorbell(points);
    return true;
  }
};

}  // namespace weir::daemon
