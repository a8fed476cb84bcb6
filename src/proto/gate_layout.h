// SPDX-License-Identifier: Apache-2.0
// The gate's shared memory, layout version 1. This file is the specification: fixed-width fields, every offset
// asserted, each field with its single writer. Published: fields are only added, in reserved space, with a new minor
// version.
//
//        vGPU region (one per vGPU, mapped by all its processes)         process region (one per attachment)
//       ┌──────────────────────────────────────────────┐                ┌──────────────────────────────────────┐
//       │ header    magic, version, size     (daemon)  │                │ header                     (daemon)  │
//       │ control   mode, limits, heartbeat  (daemon)  │                │ state   waiting, in flight  (agent)  │
//       │ wake      futex word, messages     (daemon)  │                │ ring    head (agent), tail (daemon)  │
//       │ allowance one atomic        (daemon, agents) │                │ records                     (agent)  │
//       │ memory    one word a process        (agents) │                │                                      │
//       └──────────────────────────────────────────────┘                └──────────────────────────────────────┘
//
// Both are memfds that are sealed against shrinking and growing before they are passed, so that neither side can make
// the other fault by truncating. A tenant can write anything into its own regions. So the daemon never reads back what
// it wrote itself; it copies what the agent wrote once, and then checks the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir::proto {

inline constexpr std::uint32_t kVgpuRegionMagic = 0x31475657;     // "WVG1"
inline constexpr std::uint32_t kProcessRegionMagic = 0x31525057;  // "WPR1"
inline constexpr std::uint32_t kTurnRegionMagic = 0x314E5457;     // "WTN1"

/// Major: incompatible. Minor: fields were added in reserved space. An agent accepts any minor version of its major.
inline constexpr std::uint16_t kGateVersionMajor = 1;
/// 1.1: elastic memory; 1.2, 1.5: parts; 1.3: tasks; 1.4: use; 1.6: presents that block; 1.7: the doorbell at the end;
/// 1.8: programs that present nothing, late frame starts, ages of waiting threads; 1.9: refused memory;
/// 1.10: memory of programs
/// 1.11: executors see what the programs hold
inline constexpr std::uint16_t kGateVersionMinor = 11;

/// First bytes of every region. Written by the daemon before the region is passed; never changed.
struct RegionHeader {
  std::uint32_t magic;
  std::uint16_t version_major;
  std::uint16_t version_minor;
  std::uint64_t size_bytes;  // of the whole region
  std::uint64_t id;          // of the vGPU, process or device
  std::uint8_t reserved[40];
};
static_assert(sizeof(RegionHeader) == 64);

/// What an agent does at the gate.
enum class GateMode : std::uint32_t {
  kOpen = 0,    // account, never wait
  kGated = 1,   // wait while the allowance is not positive
  kPaused = 2,  // wait until the mode changes
};
inline constexpr std::uint32_t kGateModeMax = 2;

/// When an agent rings the doorbell; a set of bits in VgpuRegion::doorbell_wanted.
/// The daemon is not polling: ring on entering the gate.
inline constexpr std::uint32_t kRingAtEntry = 1;
/// (1.7) Others wait for the work in flight: ring when the last of this process's work in flight has ended.
inline constexpr std::uint32_t kRingAtEnd = 2;

/// How a paced frame is synchronised with the device before its present is delayed, so that the duration of the present
/// can be predicted (VGRIS, section 3.2: "Flush" before "Sleep").
enum class FrameSync : std::uint32_t {
  kAuto = 0,    // finish on a software renderer, fence on hardware
  kNone = 1,    // not at all
  kFlush = 2,   // submit what is queued
  kFence = 3,   // submit, and wait for the frame before this one
  kFinish = 4,  // wait for this frame
};
inline constexpr std::uint32_t kFrameSyncMax = 4;

/// (1.8) Where a paced program waits.
enum class FrameStart : std::uint32_t {
  kEarly = 0,  // before its present
  kLate = 1,   // after the previous present, so that the frame shows later input; the rest before its present
};
inline constexpr std::uint32_t kFrameStartMax = 1;

using AtomicU32 = std::atomic<std::uint32_t>;
using AtomicU64 = std::atomic<std::uint64_t>;
using AtomicI64 = std::atomic<std::int64_t>;
static_assert(AtomicU32::is_always_lock_free && AtomicI64::is_always_lock_free && AtomicU64::is_always_lock_free);

/// The unit in which programs count device memory (1.10).
inline constexpr std::uint64_t kMemoryPageBytes = 4096;
/// Processes of a vGPU that can hold memory at a time.
inline constexpr std::size_t kMemoryWords = 448;

/// The device memory that the processes of a vGPU hold (1.10): one word for each process. The sum of all words, and of
/// what the executors hold, stays within the vGPU's limit (docs/protocol/gate.md, "Memory of programs").
///
///         63            32 31             0
///        ┌────────────────┬────────────────┐
///   word │      held      │     claimed    │   in pages of kMemoryPageBytes
///        └────────────────┴────────────────┘
struct MemoryTable {
  // Writer: daemon. Memory of the vGPU that is not of the processes of this region: in the programs' region that of the
  // executors; in the executors' region that of the programs (1.11).
  AtomicU32 others_pages;
  std::uint8_t reserved0[60];
  // Writer: the process whose ProcessRegion::memory_word names it; the daemon, before it assigns the word and after the
  // process has ended.
  AtomicU64 words[kMemoryWords];
  std::uint8_t reserved1[192];
};
static_assert(offsetof(MemoryTable, words) == 64);
static_assert(sizeof(MemoryTable) == 3840);

struct VgpuRegion {
  RegionHeader header;

  // -- offset 64: control. Writer: daemon. Read by agents on every frame.
  AtomicU32 mode;                // GateMode
  AtomicU32 doorbell_wanted;     // kRingAtEntry, kRingAtEnd
  AtomicI64 heartbeat_ns;        // CLOCK_MONOTONIC; written at least every kHeartbeatPeriodNs
  AtomicI64 frame_interval_ns;   // pace one frame per interval; 0: no pacing
  AtomicU32 cap_ppm;             // of the device's capacity, for display and agents that limit themselves
  AtomicU32 memory_limit_slots;  // of kSlotBytes; 0: no limit
  AtomicU64 messages_sent;       // number of messages sent to this vGPU's agents; after a change an agent must read the
                                 // socket
  AtomicU32 frame_sync;          // FrameSync; how a paced frame is synchronised before it is delayed

  // Elastic memory (1.1). Contents beyond memory_here_slots are evicted to host memory. The executor reports
  // completion: it copies memory_order to MemoryWords::order_done. If memory is not elastic, only memory_limit_slots
  // applies.
  AtomicU32 memory_elastic;     // 1: the fields below are valid
  AtomicU32 memory_here_slots;  // assigned slots, of memory_limit_slots; the rest are assigned to other vGPUs at the
                                // moment
  AtomicU32 memory_max_slots;   // upper bound of the limit: the most that one command can use; 0: no bound
  AtomicU32 memory_order;       // increases by two when one of these fields or the limit changes; odd during a write
  AtomicU32 frame_start;        // FrameStart (1.8)

  // -- offset 128: waking. Writer: daemon, and agents that wake the next thread. A shared (not private) futex word;
  // incremented before every wake.
  AtomicU32 wake_word;
  // (1.8) Bits of the ages at which threads wait for allowance (gate/turns.h), so that a waker tries only these ages.
  // Writer: agents set the bit that they wait with; a waker clears the bits at which no thread waits.
  AtomicU32 waiting_ages;
  std::uint8_t reserved1[56];

  // -- offset 192: allowance, on its own cache line. GPU time (ns of the device's unit) that the vGPU may still spend.
  // Agents subtract (reserve on entry, settle afterwards); the daemon adds. Negative values are debt, which is never
  // forgiven here.
  AtomicI64 allowance_ns;
  AtomicU64 fail_opens;  // Writer: agents. Number of times that an agent failed open because the daemon was gone.
  std::uint8_t reserved2[48];

  // -- offset 256 (1.10)
  MemoryTable memory;
};
static_assert(sizeof(VgpuRegion) == 4096);
static_assert(offsetof(VgpuRegion, mode) == 64);
static_assert(offsetof(VgpuRegion, doorbell_wanted) == 68);
static_assert(offsetof(VgpuRegion, heartbeat_ns) == 72);
static_assert(offsetof(VgpuRegion, frame_interval_ns) == 80);
static_assert(offsetof(VgpuRegion, cap_ppm) == 88);
static_assert(offsetof(VgpuRegion, memory_limit_slots) == 92);
static_assert(offsetof(VgpuRegion, messages_sent) == 96);
static_assert(offsetof(VgpuRegion, frame_sync) == 104);
static_assert(offsetof(VgpuRegion, memory_elastic) == 108);
static_assert(offsetof(VgpuRegion, memory_here_slots) == 112);
static_assert(offsetof(VgpuRegion, memory_max_slots) == 116);
static_assert(offsetof(VgpuRegion, memory_order) == 120);
static_assert(offsetof(VgpuRegion, frame_start) == 124);
static_assert(offsetof(VgpuRegion, wake_word) == 128);
static_assert(offsetof(VgpuRegion, waiting_ages) == 132);
static_assert(offsetof(VgpuRegion, allowance_ns) == 192);
static_assert(offsetof(VgpuRegion, fail_opens) == 200);
static_assert(offsetof(VgpuRegion, memory) == 256);

/// Size of the mapped region: a whole page.
inline constexpr std::uint64_t kVgpuRegionBytes = 4096;
static_assert(sizeof(VgpuRegion) <= kVgpuRegionBytes);

/// How an agent measures the GPU time of a frame; published, so that every figure names its source.
enum class MeterKind : std::uint32_t {
  kNone = 0,            // not known yet
  kWorkerCpuTime = 1,   // software renderer: CPU time of its worker threads / CPUs of the device
  kTimerQuery = 2,      // GPU timestamps
  kWallClock = 3,       // duration of the present call, if neither of the others gives correct times
  kPresentCpuTime = 4,  // software renderer without workers: CPU time of the presenting thread / CPUs of the device
};
inline constexpr std::uint32_t kMeterKindMax = 4;
constexpr const char* NameOf(MeterKind kind) {
  constexpr const char* kNames[] = {"none", "worker-cpu-time", "timer-query", "wall-clock", "present-cpu-time"};
  return static_cast<std::uint32_t>(kind) <= kMeterKindMax ? kNames[static_cast<std::uint32_t>(kind)] : "unknown";
}

enum class RecordKind : std::uint32_t { kFrame = 1, kLaunch = 2, kAllocation = 3, kEviction = 4 };

/// One completed frame or task. Writer: agent. Times are CLOCK_MONOTONIC.
///
///   begin            present              submit        end
///     │ delay, program  │ sync, pace, wait    │ the driver  │
///     └─────────────────┴─────────────────────┴─────────────┘   latency = end - begin (VGRIS, section 3.2)
///                                                               input to present = latency - start delay
struct Record {
  std::uint64_t sequence;     // from 1, per process
  std::uint32_t kind;         // RecordKind
  std::uint32_t surface;      // window, swapchain or queue: small number, per process
  std::int64_t begin_ns;      // return of the previous present, at which the frame begins
  std::int64_t present_ns;    // call of present by the program
  std::int64_t submit_ns;     // call of the driver's present
  std::int64_t end_ns;        // return of present; with kRecordPresentFollows: the end of the frame's work
  std::int64_t gpu_ns;        // GPU time in the device's unit
  std::int64_t sync_ns;       // of submit - present: synchronising the frame with the device
  std::int64_t pace_ns;       // of submit - present: delayed to keep the pace
  std::int64_t wait_ns;       // of submit - present: waiting at the gate
  std::int64_t predicted_ns;  // predicted value of end - submit; 0: no prediction
  std::int64_t interval_ns;   // the pace in force; 0: none
  std::int64_t reserved_ns;   // GPU time that was reserved for the frame on entry
  std::uint32_t tasks;        // flags; for a batch (1.3, 1.8): also the number of tasks that ended with it
  std::uint8_t reserved0[4];
  std::int64_t start_delay_ns;  // of present - begin (1.8): delayed before the program began the frame
  std::uint8_t reserved[8];
};
/// In Record::tasks: tasks were counted. Without it, a record is one frame or one task.
inline constexpr std::uint32_t kRecordCountsTasks = 1U << 31;
/// In Record::tasks (1.6): the frame's work had ended when the driver's present was called, because that present waits
/// for something else, such as a vertical blank.
inline constexpr std::uint32_t kRecordPresentFollows = 1U << 30;
/// A record with more tasks is rejected.
inline constexpr std::uint32_t kRecordTasksMax = 4096;
static_assert(sizeof(Record) == 128);
static_assert(offsetof(Record, sequence) == 0);
static_assert(offsetof(Record, kind) == 8);
static_assert(offsetof(Record, surface) == 12);
static_assert(offsetof(Record, begin_ns) == 16);
static_assert(offsetof(Record, present_ns) == 24);
static_assert(offsetof(Record, submit_ns) == 32);
static_assert(offsetof(Record, end_ns) == 40);
static_assert(offsetof(Record, gpu_ns) == 48);
static_assert(offsetof(Record, sync_ns) == 56);
static_assert(offsetof(Record, pace_ns) == 64);
static_assert(offsetof(Record, wait_ns) == 72);
static_assert(offsetof(Record, predicted_ns) == 80);
static_assert(offsetof(Record, interval_ns) == 88);
static_assert(offsetof(Record, reserved_ns) == 96);
static_assert(offsetof(Record, tasks) == 104);
static_assert(offsetof(Record, start_delay_ns) == 112);
static_assert(offsetof(Record, reserved) == 120);

/// A second of frames at 1,000 per second. If the ring is full, new records are dropped and counted.
inline constexpr std::uint32_t kRingRecords = 1024;
static_assert((kRingRecords & (kRingRecords - 1)) == 0);

/// An executor's report about elastic memory (1.1). Writer: agent. Byte counts cover buffers and images; totals never
/// fall.
struct MemoryWords {
  AtomicU32 order_done;      // the last memory_order that was carried out
  AtomicU32 resident_slots;  // contents on the device, in whole slots
  AtomicU64 need_bytes;      // contents wanted on the device at once; above the resident contents: a request for more
  AtomicU64 must_bytes;      // total need of one command that waits for memory; 0: none waits
  AtomicU64 in_use_bytes;    // used within the last half second, or waited for
  AtomicU64 made_bytes;      // all allocated, resident or not
  AtomicU64 switch_copy_ns;  // total: copies out and in because slots were assigned to other vGPUs for a while
  AtomicU64 copied_out;      // total bytes, for any reason
  AtomicU64 copied_in;       // total bytes
  AtomicU64 evictions;       // total buffers and images
  AtomicU64 steal_ns;        // total over the executor's threads, without the driver's: runnable, not running
  AtomicU64 elsewhere_ns;    // total over the same threads: all other time
  AtomicU32 threads;         // number of these threads

  // Launches in parts (1.2): totals of docs/partition.md, "On a node"
  AtomicU32 launches_not_cut;   // should have run in parts and could not; saturates
  AtomicU64 launches_in_parts;  // completed
  AtomicU64 parts;              // of these launches
  AtomicU64 parts_in;           // bytes of their slices, to the device
  AtomicU64 parts_out;          // bytes of their slices, from the device
};
static_assert(sizeof(MemoryWords) == 128);
static_assert(offsetof(MemoryWords, need_bytes) == 8);
static_assert(offsetof(MemoryWords, must_bytes) == 16);
static_assert(offsetof(MemoryWords, in_use_bytes) == 24);
static_assert(offsetof(MemoryWords, made_bytes) == 32);
static_assert(offsetof(MemoryWords, switch_copy_ns) == 40);
static_assert(offsetof(MemoryWords, copied_out) == 48);
static_assert(offsetof(MemoryWords, copied_in) == 56);
static_assert(offsetof(MemoryWords, evictions) == 64);
static_assert(offsetof(MemoryWords, steal_ns) == 72);
static_assert(offsetof(MemoryWords, elsewhere_ns) == 80);
static_assert(offsetof(MemoryWords, threads) == 88);
static_assert(offsetof(MemoryWords, launches_not_cut) == 92);
static_assert(offsetof(MemoryWords, launches_in_parts) == 96);
static_assert(offsetof(MemoryWords, parts) == 104);
static_assert(offsetof(MemoryWords, parts_in) == 112);
static_assert(offsetof(MemoryWords, parts_out) == 120);

struct ProcessRegion {
  RegionHeader header;

  // -- offset 64: state. Writer: agent. The region ends with the process, so a killed process leaves no stale count
  // behind.
  AtomicU32 waiting;          // threads waiting at the gate
  AtomicU32 in_flight;        // threads between the gate and the end of their present
  AtomicI64 reserved_ns;      // reserved and not yet settled; the daemon returns it when the process dies
  AtomicU32 meter;            // MeterKind
  AtomicU32 paused;           // 1 between a `pause` message and its `resume`; shown only
  AtomicU64 records_dropped;  // the ring was full
  AtomicI64 gpu_ns_total;     // settled so far
  AtomicU64 work_items;       // executors (1.4): work-items of launches that wait for the device or run on it
  AtomicU64 memory_bytes;     // executors (1.4): of all allocated objects; programs (1.10): device memory held
  // Executors (1.5): total costs of launches in parts before their first part; each saturates.
  AtomicU32 parts_decide_us;   // kernel analysis, choice of nodes and cuts
  AtomicU32 parts_compile_us;  // compilation of the parts' kernels

  // -- offset 128: ring. head: agent, tail: daemon; both only increase and are taken modulo kRingRecords.
  AtomicU64 head;
  AtomicU64 resident_bytes;  // executors (1.5): of buffers and images on the device
  AtomicU32 off_screen;      // 1.8: 1 while the process presents nothing; its records are batches then
  AtomicU32 memory_refused;  // executors (1.9): allocations and commands refused for lack of memory; programs (1.10):
                             // allocations; wraps around
  AtomicU32 memory_word;     // 1.10: the process's index in MemoryTable::words, plus 1; 0: it has none. Writer: daemon,
                             // before the region is passed.
  std::uint8_t reserved1[36];
  AtomicU64 tail;
  std::uint8_t reserved2[56];

  // -- offset 256
  char renderer[128];  // Writer: agent, once. GL_RENDERER, UTF-8, zero-terminated.
  MemoryWords memory;  // 1.1, 1.2; executors only

  // -- offset 512
  Record records[kRingRecords];
};
static_assert(offsetof(ProcessRegion, waiting) == 64);
static_assert(offsetof(ProcessRegion, in_flight) == 68);
static_assert(offsetof(ProcessRegion, reserved_ns) == 72);
static_assert(offsetof(ProcessRegion, meter) == 80);
static_assert(offsetof(ProcessRegion, paused) == 84);
static_assert(offsetof(ProcessRegion, records_dropped) == 88);
static_assert(offsetof(ProcessRegion, gpu_ns_total) == 96);
static_assert(offsetof(ProcessRegion, work_items) == 104);
static_assert(offsetof(ProcessRegion, memory_bytes) == 112);
static_assert(offsetof(ProcessRegion, parts_decide_us) == 120);
static_assert(offsetof(ProcessRegion, parts_compile_us) == 124);
static_assert(offsetof(ProcessRegion, head) == 128);
static_assert(offsetof(ProcessRegion, resident_bytes) == 136);
static_assert(offsetof(ProcessRegion, off_screen) == 144);
static_assert(offsetof(ProcessRegion, memory_refused) == 148);
static_assert(offsetof(ProcessRegion, memory_word) == 152);
static_assert(offsetof(ProcessRegion, tail) == 192);
static_assert(offsetof(ProcessRegion, renderer) == 256);
static_assert(offsetof(ProcessRegion, memory) == 384);
static_assert(offsetof(ProcessRegion, records) == 512);
inline constexpr std::uint64_t kProcessRegionBytes = 512 + std::uint64_t{kRingRecords} * sizeof(Record);
static_assert(sizeof(ProcessRegion) == kProcessRegionBytes);

/// The turn of a device, passed on among executors. Reserved: laid out in version 1, but turns are given by allowances
/// (docs/protocol/gate.md, "The turn").
struct TurnRegion {
  RegionHeader header;

  // -- offset 64
  AtomicU64 holder;  // vGPU that holds the turn, 0: none. Writer: the previous holder; the daemon when a holder dies.
  AtomicU32 turn_word;      // shared futex word, incremented at every hand-over. Writer: as holder.
  AtomicU32 waiting;        // executors waiting for the turn. Writer: executors.
  AtomicI64 held_since_ns;  // Writer: the holder, on taking it.
  AtomicI64 quantum_ns;     // Writer: daemon. The holder passes the turn on after this, unless no executor waits.
  AtomicI64 max_hold_ns;    // Writer: daemon. After this the daemon takes the turn back.
  AtomicU64 hand_overs;     // Writer: as holder.
  std::uint8_t reserved0[16];

  // -- offset 128: order in which the turn is passed on, vGPU ids. Writer: daemon; 0 ends the list.
  AtomicU64 order[480];
};
static_assert(offsetof(TurnRegion, holder) == 64);
static_assert(offsetof(TurnRegion, turn_word) == 72);
static_assert(offsetof(TurnRegion, waiting) == 76);
static_assert(offsetof(TurnRegion, held_since_ns) == 80);
static_assert(offsetof(TurnRegion, quantum_ns) == 88);
static_assert(offsetof(TurnRegion, max_hold_ns) == 96);
static_assert(offsetof(TurnRegion, hand_overs) == 104);
static_assert(offsetof(TurnRegion, order) == 128);
inline constexpr std::uint64_t kTurnRegionBytes = 4096;
static_assert(sizeof(TurnRegion) <= kTurnRegionBytes);

/// The daemon writes its heartbeat at least this often.
inline constexpr std::int64_t kHeartbeatPeriodNs = 100'000'000;
/// An agent that sees no heartbeat for this long assumes that the daemon is dead, and fails open.
inline constexpr std::int64_t kHeartbeatStaleNs = 1'000'000'000;

/// Checks a header from an untrusted source. Returns nullptr if it is acceptable, else what is wrong with it.
const char* HeaderFault(const RegionHeader& header, std::uint32_t magic, std::uint64_t mapped_bytes);

/// Fills a header. `region` must be zeroed memory of at least `size_bytes`.
void InitHeader(RegionHeader& header, std::uint32_t magic, std::uint64_t size_bytes, std::uint64_t id);

}  // namespace weir::proto
