// SPDX-License-Identifier: Apache-2.0
// One attachment of this process to a gate. Private to the agent.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "platform/shared_memory.h"
#include "proto/attach_messages.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// Changes a number of this process and shows it to the daemon. The shared word is not read: a kernel that is native
/// code of an executor can write to it, and what it has overwritten is right again after the next change.
template <typename Value>
void Show(Value& number, std::type_identity_t<Value> more, std::atomic<Value>& shown,
          std::memory_order order = std::memory_order_relaxed) {
  number += more;
  shown.store(number, order);
}
/// Shows all numbers of a process again, in case they were overwritten. The agent's mutex must be held.
void ShowAgain(struct Attachment& attachment);
inline constexpr std::uint32_t kMinusOne = ~std::uint32_t{0};

/// The connection to the daemon, and the shared memory of the gate.
struct Attachment {
  platform::Fd socket;
  platform::Fd doorbell;
  platform::Mapping vgpu_mapping;
  platform::Mapping process_mapping;
  proto::CpuMask device_cpus{};
  std::uint64_t messages_seen = 0;   // messages_sent up to which messages were read; guarded by the agent's mutex
  std::uint64_t sequence = 0;        // number of the last record; guarded by the agent's mutex
  int unknown = 0;                   // frames with a charge that is predicted; guarded by the agent's mutex
  std::int64_t predicted_ns = 0;     // the sum of these charges; guarded by the agent's mutex
  std::int64_t users = 0;            // open tickets and the agent itself; guarded by the agent's mutex
  std::atomic<bool> dropped{false};  // the agent has given it up

  // What the words of the process region show (Show). Guarded by the agent's mutex, but for `paused`.
  std::uint32_t waiting = 0, in_flight = 0;
  std::int64_t reserved_ns = 0, gpu_ns_total = 0;
  std::uint64_t head = 0, records_dropped = 0;
  std::atomic<bool> paused{false};  // between a `pause` message and its `resume`

  [[nodiscard]] proto::VgpuRegion& vgpu() const { return *vgpu_mapping.As<proto::VgpuRegion>(); }
  [[nodiscard]] proto::ProcessRegion& process() const { return *process_mapping.As<proto::ProcessRegion>(); }

  /// Whether the daemon wants the doorbell at this point: proto::kRingAtEntry or kRingAtEnd.
  [[nodiscard]] bool DoorbellWanted(std::uint32_t point) const {
    return (vgpu().doorbell_wanted.load(std::memory_order_seq_cst) & point) != 0;
  }
  void RingDoorbell() const;
  void SetPaused(bool now) {
    paused.store(now, std::memory_order_relaxed);
    process().paused.store(now ? 1 : 0, std::memory_order_relaxed);
  }
  /// Takes `cost_ns` from the allowance if the gate lets this process pass now.
  bool TryReserve(std::int64_t cost_ns);
  /// Appends a record; if the ring is full, drops and counts it. The agent's mutex must be held: one producer at a
  /// time.
  void Push(const proto::Record& record);
};

}  // namespace weir::gate
