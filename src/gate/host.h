// SPDX-License-Identifier: Apache-2.0
// The daemon's end of the gates: makes regions, takes attachments, reads what agents wrote (once, then checked) and
// carries the engine's actions out. Knows no event loop: it names the descriptors to watch.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "platform/shared_memory.h"
#include "platform/unix_socket.h"
#include "proto/attach_messages.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// No vGPU has more processes attached than this.
inline constexpr std::size_t kProcessesPerVgpuMax = 256;

/// A day: no figure that a tenant gives is believed beyond it, so that what is reckoned with it can't overflow.
inline constexpr std::int64_t kBelievableNs = 86'400LL * 1'000'000'000;

struct ProcessInfo {
  ProcessId id;
  pid_t pid = 0;
  uid_t uid = 0;
  proto::Api api = proto::Api::kUnknown;
  std::string program;
  std::string renderer;  // what the agent says, made printable
  proto::MeterKind meter = proto::MeterKind::kNone;
};

/// One frame as the agent recorded it, checked.
struct HostFrame {
  pid_t pid = 0;
  std::uint32_t surface = 0;
  std::int64_t begin_ns = 0, present_ns = 0, submit_ns = 0, end_ns = 0;
  std::int64_t gpu_ns = 0, sync_ns = 0, pace_ns = 0, wait_ns = 0;
  std::int64_t predicted_ns = 0, interval_ns = 0;
  std::uint32_t tasks = 1;
};
struct Drained {
  std::vector<HostFrame> frames;
  std::uint64_t lost = 0;
  std::uint64_t bad = 0;
};

/// What an executor says of its memory, within what can be believed. `order_done` answers VgpuGate::memory_order.
struct MemoryBooks {
  std::uint32_t order_done = 0;
  std::uint32_t resident_slots = 0;
  Bytes need{}, must{}, in_use{}, made{}, copied_out{}, copied_in{};
  Duration switch_copy{}, steal{}, elsewhere{};
  std::uint64_t evictions = 0;
  std::uint32_t threads = 0;
  // Launches in parts
  std::uint64_t launches_in_parts = 0, parts = 0, launches_not_cut = 0;
  Bytes parts_in{}, parts_out{};
  Duration parts_decide{}, parts_compile{};
  Bytes resident{};  // beside `resident_slots`: exactly; zero from executors of before 1.5
};

/// What an executor's clients use of the device, bounded. Zero for other programs, and for executors of before 1.4.
struct DeviceUse {
  std::uint64_t work_items = 0;  // of launches that have not ended
  Bytes memory{};                // of all objects that are made
  friend bool operator==(const DeviceUse&, const DeviceUse&) = default;
};

/// One attached process.
class ProcessGate {
 public:
  ProcessGate(ProcessId id, platform::Fd socket, platform::Peer peer, const proto::Hello& hello,
              platform::SharedRegion region);

  [[nodiscard]] ProcessId id() const { return id_; }
  [[nodiscard]] proto::Api api() const { return api_; }
  [[nodiscard]] pid_t pid() const { return peer_.pid; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  /// Sends `signal` to an executor (Api::kOpenCl), which tells it to end: to the process that connected, and no other
  /// that has its pid by now. Nothing happens to other programs, or where the kernel can't name the process.
  void EndExecutor(int signal) const;
  [[nodiscard]] const platform::SharedRegion& region() const { return region_; }
  [[nodiscard]] ProcessInfo Info() const;
  [[nodiscard]] std::uint32_t Waiting() const { return Count(page().waiting); }
  [[nodiscard]] std::uint32_t InFlight() const { return Count(page().in_flight); }
  /// Between 0 and kBelievableNs, whatever the tenant wrote.
  [[nodiscard]] std::int64_t ReservedNs() const {
    return std::clamp<std::int64_t>(page().reserved_ns.load(std::memory_order_relaxed), 0, kBelievableNs);
  }
  /// Looks at what the process was charged, at `now_ns`. True: work of it began or ended since the last call.
  bool Observe(std::int64_t now_ns);
  /// How long it had work in flight, as Observe saw, since it was last charged for any; 0: it has none in flight.
  [[nodiscard]] std::int64_t UnreportedNs(std::int64_t now_ns) const;
  [[nodiscard]] MemoryBooks Memory() const;
  [[nodiscard]] DeviceUse Use() const;
  /// Appends the records since the last call. `now_ns` bounds what can be believed.
  void Drain(std::int64_t now_ns, Drained& into);
  /// Reads what the agent sent. False: it has closed, or sent what no agent sends.
  bool ReadAcks();
  Status Send(const proto::Command& command);

 private:
  [[nodiscard]] proto::ProcessRegion& page() const { return *region_.mapping.As<proto::ProcessRegion>(); }
  static std::uint32_t Count(const proto::AtomicU32& word);

  ProcessId id_;
  platform::Fd socket_;
  platform::Peer peer_;
  platform::Fd process_;  // pidfd of an executor; empty: of another program, or not known
  proto::Api api_;
  std::string program_;
  platform::SharedRegion region_;
  std::uint64_t tail_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t dropped_seen_ = 0;
  // As Observe saw them last:
  std::uint32_t in_flight_seen_ = 0;
  std::int64_t settled_seen_ns_ = 0;
  std::int64_t reserved_seen_ns_ = 0;
  std::int64_t charged_at_ns_ = 0;  // when one of them changed last, or nothing was in flight
};

/// What the daemon writes into a vGPU's region.
struct Controls {
  proto::GateMode mode = proto::GateMode::kOpen;
  std::int64_t frame_interval_ns = 0;
  proto::FrameSync frame_sync = proto::FrameSync::kAuto;
  std::uint32_t cap_ppm = 1'000'000;
  std::uint32_t memory_limit_slots = 0;
  bool memory_elastic = false;
  std::uint32_t memory_here_slots = 0;
  std::uint32_t memory_max_slots = 0;
  [[nodiscard]] bool SameMemory(const Controls& other) const {
    return memory_limit_slots == other.memory_limit_slots && memory_elastic == other.memory_elastic &&
           memory_here_slots == other.memory_here_slots && memory_max_slots == other.memory_max_slots;
  }
};

/// One vGPU: its region, its attach socket and its processes.
class VgpuGate {
 public:
  /// Listens on `socket_path` (mode 0666 less the folder's protection; who may attach is decided by uid: `owner_uid`
  /// and root). `device_cpus`: of a software device.
  static Result<std::unique_ptr<VgpuGate>> Make(VgpuId id, const std::string& socket_path, uid_t owner_uid,
                                                const proto::CpuMask& device_cpus, std::int64_t now_ns);
  ~VgpuGate();
  VgpuGate(const VgpuGate&) = delete;
  VgpuGate& operator=(const VgpuGate&) = delete;

  [[nodiscard]] VgpuId id() const { return id_; }
  [[nodiscard]] const std::string& socket_path() const { return socket_path_; }
  [[nodiscard]] int listener() const { return listener_.get(); }
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }
  void AnswerDoorbell();

  /// Takes one connection from the listener; the caller waits for its Hello. kTimeout when there is none. One of a user
  /// who may not attach is refused and closed at once: kPermissionDenied.
  Result<platform::Fd> Accept();
  /// Reads the Hello of an accepted connection, once it can be read, and answers it. On an error the peer was told why,
  /// if it can be told. `executor_pid`: a living child of the daemon's, for which there is always a place; 0: there is
  /// none.
  Result<ProcessGate*> Welcome(platform::Fd connection, ProcessId id, pid_t executor_pid = 0);
  void Detach(ProcessId id);
  [[nodiscard]] const std::map<ProcessId, std::unique_ptr<ProcessGate>>& processes() const { return processes_; }

  void Beat(std::int64_t now_ns) { page().heartbeat_ns.store(now_ns, std::memory_order_relaxed); }
  void Publish(const Controls& controls);
  /// Of the memory that was published last; 0: none was yet.
  [[nodiscard]] std::uint32_t memory_order() const { return memory_order_; }
  void WantDoorbell(bool wanted) { page().doorbell_wanted.store(wanted ? 1 : 0, std::memory_order_seq_cst); }
  /// Within ± kBelievableNs, whatever a tenant wrote.
  [[nodiscard]] std::int64_t AllowanceNs() const {
    return std::clamp(page().allowance_ns.load(std::memory_order_relaxed), -kBelievableNs, kBelievableNs);
  }
  void Grant(std::int64_t delta_ns) { page().allowance_ns.fetch_add(delta_ns, std::memory_order_relaxed); }
  void Wake();
  /// To every attached agent. Who can't take it is listed, to be detached.
  std::vector<ProcessId> Tell(proto::CommandKind command, std::uint64_t argument);
  [[nodiscard]] std::uint64_t FailOpens() const { return page().fail_opens.load(std::memory_order_relaxed); }

 private:
  VgpuGate(VgpuId id, std::string socket_path, uid_t owner_uid, const proto::CpuMask& device_cpus)
      : id_(id), socket_path_(std::move(socket_path)), owner_uid_(owner_uid), device_cpus_(device_cpus) {}
  [[nodiscard]] proto::VgpuRegion& page() const { return *region_.mapping.As<proto::VgpuRegion>(); }
  Result<proto::Hello> ReadHello(int connection, const platform::Peer& peer, pid_t executor_pid) const;
  [[nodiscard]] Status MayAttach(const platform::Peer& peer) const;

  VgpuId id_;
  std::string socket_path_;
  uid_t owner_uid_;
  proto::CpuMask device_cpus_;
  platform::Fd listener_;
  platform::Fd doorbell_;
  platform::SharedRegion region_;
  std::uint64_t messages_sent_ = 0;
  std::uint32_t memory_order_ = 0;
  Controls published_;
  std::map<ProcessId, std::unique_ptr<ProcessGate>> processes_;
};

}  // namespace weir::gate
