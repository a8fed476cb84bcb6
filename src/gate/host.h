// SPDX-License-Identifier: Apache-2.0
// The daemon's end of the gates: creates regions, accepts attachments, reads what agents have written (each value is
// copied once and then checked) and applies the engine's actions. It has no event loop: callers watch its descriptors.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "platform/shared_memory.h"
#include "platform/unix_socket.h"
#include "proto/attach_messages.h"
#include "proto/executor_statistics.h"
#include "proto/gate_layout.h"

namespace weir::gate {

/// Upper bound of the processes attached to a vGPU. A poll reads two cache lines of each.
inline constexpr std::size_t kProcessesPerVgpuMax = 2048;

/// One day: upper bound of any time that a tenant reports, so that computing with it can't overflow.
inline constexpr std::int64_t kBelievableNs = 86'400LL * 1'000'000'000;

/// What users are shown of an attached process.
struct ProcessInfo {
  ProcessId id;
  pid_t pid = 0;
  uid_t uid = 0;
  proto::Api api = proto::Api::kUnknown;
  std::string program;
  std::string renderer;  // as the agent reports it, made printable
  proto::MeterKind meter = proto::MeterKind::kNone;
  bool off_screen = false;  // it renders without presenting
  Bytes memory{};           // device memory that a program holds, as it reports it; 0 for executors
};

/// A checked frame record of an agent.
struct HostFrame {
  pid_t pid = 0;
  std::uint32_t surface = 0;
  std::int64_t begin_ns = 0, present_ns = 0, submit_ns = 0, end_ns = 0;
  std::int64_t gpu_ns = 0, sync_ns = 0, pace_ns = 0, wait_ns = 0;
  std::int64_t predicted_ns = 0, interval_ns = 0, start_delay_ns = 0;
  std::uint32_t tasks = 1;
  bool present_follows = false;  // proto::kRecordPresentFollows
};
struct Drained {
  std::vector<HostFrame> frames;
  std::uint64_t lost = 0;  // records that did not fit into the ring
  std::uint64_t bad = 0;   // implausible records
};

/// The places of a vGPU for processes, at the moment when a process attaches.
struct Places {
  std::size_t most = kProcessesPerVgpuMax;  // fewer: the daemon keeps its descriptors for other vGPUs
  pid_t executor_pid = 0;                   // a living executor of the daemon, which always gets a place; 0: none
};

/// What the clients of an executor use of the device, clamped. Zero for other programs, and for executors of protocol
/// versions before 1.4.
struct DeviceUse {
  std::uint64_t work_items = 0;  // of unfinished launches
  Bytes memory{};                // of all objects
  friend bool operator==(const DeviceUse&, const DeviceUse&) = default;
};

/// One attached process.
class ProcessGate {
 public:
  ProcessGate(ProcessId id, platform::Fd socket, platform::Peer peer, const proto::Hello& hello,
              platform::Mapping region);

  [[nodiscard]] ProcessId id() const { return id_; }
  [[nodiscard]] proto::Api api() const { return api_; }
  [[nodiscard]] pid_t pid() const { return peer_.pid; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] ProcessInfo Info() const;
  /// Whether the process presents frames now, by its own report.
  [[nodiscard]] bool Draws() const {
    return proto::Draws(api_) && page().off_screen.load(std::memory_order_relaxed) != 1;
  }
  /// Returns whether Draws() has changed since the last call. The first call compares with what the API suggests.
  bool ObserveDraws() { return std::exchange(off_screen_seen_, !Draws()) != !Draws(); }
  /// How many more allocations, and commands of an executor, had no memory than at the last call.
  std::uint32_t TakeMemoryRefused() {
    const std::uint32_t now = page().memory_refused.load(std::memory_order_relaxed);
    return now - std::exchange(memory_refused_seen_, now);
  }
  [[nodiscard]] std::uint32_t Waiting() const { return Count(page().waiting); }
  [[nodiscard]] std::uint32_t InFlight() const { return Count(page().in_flight); }
  /// GPU time reserved for work in flight, clamped to 0 … kBelievableNs.
  [[nodiscard]] std::int64_t ReservedNs() const {
    return std::clamp<std::int64_t>(page().reserved_ns.load(std::memory_order_relaxed), 0, kBelievableNs);
  }
  /// Compares the charges of the process with those at the last call. True: work has begun or ended since then.
  bool Observe(std::int64_t now_ns);
  /// How long the process has had work in flight without a charge, as of the last Observe; 0: nothing is in flight.
  [[nodiscard]] std::int64_t UnreportedNs(std::int64_t now_ns) const;
  /// An executor's statistics, limited to plausible values.
  [[nodiscard]] proto::ExecutorStatistics Memory() const;
  [[nodiscard]] DeviceUse Use() const;
  /// The device memory that a program holds, as it reports it, clamped. Zero for executors.
  [[nodiscard]] Bytes ProgramMemory() const;
  /// Index of the process's word in the vGPU's memory table, plus 1; 0: it has none. Not read from shared memory.
  [[nodiscard]] std::uint32_t memory_word() const { return memory_word_; }
  void set_memory_word(std::uint32_t word) { memory_word_ = word; }
  /// Appends the records since the last call. A record that ends more than a second after `now_ns` is bad.
  void Drain(std::int64_t now_ns, Drained& into);
  /// Reads the agent's packets. False: the agent has closed the connection, or sent an invalid packet or an answer to
  /// no command.
  bool ReadAcks();
  Status Send(const proto::Command& command);

 private:
  [[nodiscard]] proto::ProcessRegion& page() const { return *region_.As<proto::ProcessRegion>(); }
  static std::uint32_t Count(const proto::AtomicU32& word);

  ProcessId id_;
  platform::Fd socket_;
  platform::Peer peer_;
  proto::Api api_;
  std::string program_;
  platform::Mapping region_;
  std::uint64_t tail_ = 0;          // the daemon's own copy of ProcessRegion::tail, which the tenant can overwrite
  std::uint64_t sequence_ = 0;      // of the last good record
  std::uint64_t dropped_seen_ = 0;  // records_dropped at the last Drain
  bool off_screen_seen_ = false;    // as of the last ObserveDraws
  std::uint32_t memory_refused_seen_ = 0;
  std::uint32_t memory_word_ = 0;
  std::uint64_t unanswered_ = 0;  // commands that were sent, minus answers
  // As of the last Observe:
  std::uint32_t in_flight_seen_ = 0;
  std::int64_t settled_seen_ns_ = 0;
  std::int64_t reserved_seen_ns_ = 0;
  std::int64_t charged_at_ns_ = 0;  // last change of these values, or the last time nothing was in flight
};

/// What the daemon writes into a vGPU's region.
struct Controls {
  proto::GateMode mode = proto::GateMode::kOpen;
  std::int64_t frame_interval_ns = 0;
  proto::FrameSync frame_sync = proto::FrameSync::kAuto;
  proto::FrameStart frame_start = proto::FrameStart::kEarly;
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

/// One vGPU's regions, attach socket and processes.
///
/// The vGPU's executors, which the daemon starts, share a region of their own: what else its owner runs can neither
/// lift their limits nor take back what they have spent. Both regions hold the same words; what is spent of the
/// allowance of one is taken from the other one's at the next reading.
class VgpuGate {
 public:
  /// Listens on `socket_path` with mode 0666; the folder's mode also limits access. Only `owner_uid` and root may
  /// attach. `device_cpus`: of an embedded device.
  static Result<std::unique_ptr<VgpuGate>> Make(VgpuId id, const std::string& socket_path, uid_t owner_uid,
                                                const proto::CpuMask& device_cpus, std::int64_t now_ns);
  ~VgpuGate();
  VgpuGate(const VgpuGate&) = delete;
  VgpuGate& operator=(const VgpuGate&) = delete;

  [[nodiscard]] VgpuId id() const { return id_; }
  [[nodiscard]] const std::string& socket_path() const { return socket_path_; }
  [[nodiscard]] int listener() const { return listener_.get(); }
  [[nodiscard]] int doorbell() const { return doorbell_.get(); }
  /// Empties the doorbell without blocking.
  void AnswerDoorbell();

  /// Accepts one connection; the caller then waits for its Hello. kTimeout: none is queued. kPermissionDenied: the user
  /// may not attach; the connection was refused and closed. `is_executor`: whether a pid is that of an executor of this
  /// vGPU, which may attach as any user.
  Result<platform::Fd> Accept(const std::function<bool(pid_t)>& is_executor = {});
  /// Reads and answers the Hello of an accepted connection that is readable. A process that is `places.executor_pid`
  /// gets the region of the executors. After an error the peer has been told the reason, if possible.
  /// kResourceExhausted: there is no place, and the agent of the peer waits for one.
  Result<ProcessGate*> Welcome(platform::Fd connection, ProcessId id, const Places& places = {});
  void Detach(ProcessId id);
  [[nodiscard]] const std::map<ProcessId, std::unique_ptr<ProcessGate>>& processes() const { return processes_; }

  /// Renews the heartbeat, by which agents see that the daemon lives. Also writes the header and the controls again
  /// where a tenant has overwritten them.
  void Beat(std::int64_t now_ns);
  void Publish(const Controls& controls);
  /// Whether the memory of the vGPU's executors is elastic, as last published.
  [[nodiscard]] bool memory_elastic() const { return published_.memory_elastic; }
  /// Publishes the memory that the vGPU's executors use to its programs, and what the programs hold to the executors.
  /// Each counts under the limit of the other.
  void SetExecutorsMemory(Bytes bytes);
  /// The number of the last published memory order; 0: none yet.
  [[nodiscard]] std::uint32_t memory_order() const { return memory_order_; }
  /// Requests that agents ring the doorbell. `points`: a set of proto::kRingAtEntry and kRingAtEnd.
  void WantDoorbell(std::uint32_t points) {
    doorbell_wanted_ = points;
    InBoth([points](proto::VgpuRegion& page) { page.doorbell_wanted.store(points, std::memory_order_seq_cst); });
  }
  /// Upper bound of what is believed to be spent of one region between two readings.
  static constexpr std::int64_t kSpentMaxNs = 50LL * 1'000'000'000;
  /// Upper bound of what the programs' region gets back: reservations of work in flight that took less. A kernel's
  /// charge may grow for long before its events say what it used, so the executors' region may get back all that was
  /// spent.
  static constexpr std::int64_t kProgramsBackMaxNs = 2LL * 1'000'000'000;
  /// The allowance that is left, clamped to ± kBelievableNs: what was granted, minus what was spent of either region. A
  /// region can't get back more than was spent of it, nor more than its bound.
  [[nodiscard]] std::int64_t AllowanceNs();
  void Grant(std::int64_t delta_ns);
  /// How often, since the last call, a region held an allowance that no agent leaves there.
  [[nodiscard]] std::uint64_t TakeForgedAllowances() { return std::exchange(forged_allowances_, 0); }
  /// Wakes all threads that wait, for an allowance, a pace or a memory order.
  void Wake();
  /// Wakes the thread whose turn it is (gate/turns.h). That thread wakes the next one while there is allowance left.
  void WakeNext();
  /// Sends a command to every attached agent. Returns the processes that can't take the message and must be detached.
  std::vector<ProcessId> Tell(proto::CommandKind command, std::uint64_t argument);
  /// How often an agent has failed open, by the agents' own count.
  [[nodiscard]] std::uint64_t FailOpens() const;

 private:
  /// A region that agents share with the daemon.
  struct Shared {
    platform::SharedRegion region{};
    std::int64_t back_max_ns = kBelievableNs;
    std::int64_t back_ns = 0;  // what it may get back: spent of its allowance so far, at most back_max_ns
    [[nodiscard]] bool exists() const { return static_cast<bool>(region.fd); }
    [[nodiscard]] proto::VgpuRegion& page() const { return *region.mapping.As<proto::VgpuRegion>(); }
  };
  VgpuGate(VgpuId id, std::string socket_path, uid_t owner_uid, const proto::CpuMask& device_cpus)
      : id_(id), socket_path_(std::move(socket_path)), owner_uid_(owner_uid), device_cpus_(device_cpus) {}
  template <typename Change>
  void InBoth(const Change& change) {
    change(programs_.page());
    if (executors_.exists()) change(executors_.page());
  }
  Result<Shared> MakeRegion() const;
  Result<Shared*> RegionOf(bool is_executor);
  /// A word of the memory table for a process, plus 1, set to zero; 0: it gets none.
  std::uint32_t FreeMemoryWord(proto::Api api);
  void WriteControls(proto::VgpuRegion& page, bool memory) const;
  [[nodiscard]] bool HoldsControls(const proto::VgpuRegion& page) const;
  [[nodiscard]] bool HoldsMemoryOrder(const proto::VgpuRegion& page) const;
  void Mend(proto::VgpuRegion& page) const;
  std::int64_t TakeSpent(Shared& shared);
  Result<proto::Hello> ReadHello(int connection, const platform::Peer& peer, const Places& places) const;
  [[nodiscard]] Status HasPlace(const platform::Peer& peer, const Places& places) const;
  [[nodiscard]] Status MayAttach(const platform::Peer& peer, bool is_executor) const;

  VgpuId id_;
  std::string socket_path_;
  uid_t owner_uid_;
  proto::CpuMask device_cpus_;
  platform::Fd listener_;
  platform::Fd doorbell_;
  Shared programs_, executors_;  // the second one is made for the first executor
  // What both regions hold.
  std::int64_t allowance_ns_ = 0;  // as of the last AllowanceNs or Grant
  std::int64_t beat_ns_ = 0;
  std::uint64_t messages_sent_ = 0;
  std::uint32_t memory_order_ = 0, doorbell_wanted_ = 0;
  Controls published_;
  std::uint64_t forged_allowances_ = 0;
  std::bitset<proto::kMemoryWords> memory_words_;  // those of attached processes
  std::map<ProcessId, std::unique_ptr<ProcessGate>> processes_;
};

}  // namespace weir::gate
