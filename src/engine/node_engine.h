// SPDX-License-Identifier: Apache-2.0
// The node's state machine: Step(now, event) → actions. It makes every decision about vGPUs and has no side effects;
// the daemon applies its actions to real gates, the simulator to modelled ones.
//
//   vGPU:   idle ──attach──▶ running ◀──allowance──▶ waiting        paused: from any of these states, until resumed
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/schedule/cap_bucket.h"
#include "core/schedule/late_looks.h"
#include "core/stats/loop_costs.h"
#include "engine/events.h"

namespace weir::core {
struct SlotNeed;
}

namespace weir::engine {

inline constexpr std::size_t kVgpusMax = 10'000;
inline constexpr std::size_t kNameBytesMax = 63;
/// 16 TiB of elastic memory.
inline constexpr std::uint64_t kSlotsMax = 1ULL << 18;
/// How long a vGPU with work in flight, or with an allowance, may hold others back while no work of it begins or ends.
/// After this time it is stuck and holds no others back. (The present of a hidden window may block for ever, and a
/// hostile agent may claim to wait.) The time counts from the end of the work that was charged to any vGPU of the
/// device: a vGPU that waits behind a long kernel is not stuck. A stuck vGPU is charged for what it uses. If a process
/// dies in flight, at most this much is charged in addition to its reservation.
inline constexpr Duration kStuckAfter = milliseconds(500);
/// Charged work is expected to end within this time, which bounds how long false charges hold others back.
inline constexpr Duration kChargedWorkMax = seconds(10);
/// A sample may claim at most this much GPU time in addition to four times the time since the last one. A sample that
/// claims more is rejected.
inline constexpr Duration kSpentSlack = seconds(60);

enum class VgpuState : std::uint8_t { kIdle, kRunning, kWaiting, kPaused };
const char* NameOf(VgpuState state);

enum class PromiseFit : std::uint8_t { kUnknown, kFits, kTooMuch };
const char* NameOf(PromiseFit fit);

/// Whether the promised rate or latency of a vGPU is kept, and what it needs. Numbers are parts of the device.
struct PromiseStatus {
  bool given = false;           // there is a promise
  bool kept_by_policy = false;  // the policy of its device keeps rates
  PromiseFit fit = PromiseFit::kUnknown;
  core::LoopCost cost;                  // as learned so far; no loops: not known yet
  double need = 0;                      // what the promise needs; 0 if the cost is not known
  double others = 0;                    // what the promises of the device's other vGPUs need, as far as known
  std::size_t others_unknown = 0;       // number of other vGPUs whose need is not known
  std::string text{};                   // all of the above in one line
  std::vector<std::string> warnings{};  // reasons why it may not be kept, and what to do
};

/// All information about a vGPU, as a copy.
struct VgpuStatus {
  VgpuId id;
  std::string name;
  std::string device;
  VgpuState state = VgpuState::kIdle;
  VgpuSettings settings;
  core::Sale sale = core::Sale::kGuaranteed;
  /// The cap that holds at the moment. It is below the cap of the settings where the device is oversold (the latter is
  /// then the ceiling), and where a promised rate implies a cap.
  Share cap_now = Share::Whole();
  std::size_t processes = 0;
  core::FrameTotals totals;
  core::FrameWindow window;
  core::FrameHistograms histograms;
  Duration gpu_total{};  // GPU time charged since creation; a correction may lower it
  Duration gpu_most{};   // the highest value that it has had
  Duration settled{};    // of gpu_total, the part up to the last reading of the driver's account
  Instant settled_at{};  // {}: there was no reading
  double gpu_use = 0;    // of the device's capacity, in the last second
  double gpu_share = 0;  // of the use by all vGPUs of the device, in the last second
  std::uint64_t records_lost = 0;
  std::uint64_t records_bad = 0;
  std::uint64_t samples_bad = 0;
  // Elastic memory (docs/memory.md); in slots
  MemoryGrant memory;
  std::uint32_t memory_min = 0;
  bool memory_waits = false;   // a command waits for slots that are assigned to others
  std::string memory_beyond;   // that its limit is above the device's memory; empty: it is not
  MemorySample memory_sample;  // as last reported by its executor
};

struct SlotStatus {
  std::uint32_t sharers = 0;  // number of vGPUs that hold the slot
  VgpuId owner{};             // owner at the moment
  bool leaving = false;       // the slot is being revoked from its owner
};
struct MemoryHolder {
  VgpuId id;
  std::string name;
  std::vector<core::SlotRange> holds;
};
/// Holders and owners of all slots.
struct MemoryMap {
  std::vector<SlotStatus> slots;
  std::vector<MemoryHolder> holders;  // by id
};

/// A device's elastic memory; without slots it is not elastic.
struct MemoryStatus {
  std::uint32_t slots = 0;   // available to vGPUs
  std::uint32_t size = 0;    // of the device, as configured
  std::uint32_t others = 0;  // slots of `size` that other programs hold, as far as is known
  core::PolicyParams params;
  std::uint64_t guaranteed = 0;  // in slots, sum of all minima
  std::uint64_t held = 0;        // in slots, sum over all vGPUs
  double overhead = 0;           // f (core/memory/balloon.h)
  double steal = 0;              // W, %
  double copying = 0;            // R_copy, %
  core::MemoryPressure pressure{};
  std::uint64_t switches = 0;
};

struct DeviceStatus {
  DeviceSpec spec;
  std::string policy;
  core::PolicyParams params;
  bool keeps_rates = false;           // the policy keeps promised rates, with these parameters
  std::vector<std::string> warnings;  // promises that are not kept
  std::size_t vgpus = 0;
  double gpu_use = 0;
  Duration gpu_total{};
  Duration gpu_most{};  // the sum of the vGPUs' highest values, those that were removed included; it never falls
  // Overselling (docs/oversubscription.md)
  core::OversellMode oversell = core::OversellMode::kOff;
  core::PolicyParams oversell_params;
  double sold = 0;                   // sum of ceilings, in devices
  double load = 0;                   // part of the device that promises need
  double promised = 0;               // part of the device that promised rates and shares need, as far as known
  std::size_t promised_unknown = 0;  // vGPUs with promised rates whose need is not known
  bool promises_fit = true;
  core::SalesOffer offer;
  core::Account account;
  MemoryStatus memory;
};

/// Makes a policy from its entry in the table; tests can insert their own.
using PolicyMaker = std::function<std::unique_ptr<core::Policy>(const core::PolicyEntry&, const core::PolicyParams&)>;

class NodeEngine {
 public:
  /// `devices`: at least one, with unique names. Every device starts with kDefaultPolicy. `maker` is only for tests.
  explicit NodeEngine(std::vector<DeviceSpec> devices, PolicyMaker maker = {});
  ~NodeEngine();
  NodeEngine(const NodeEngine&) = delete;
  NodeEngine& operator=(const NodeEngine&) = delete;

  /// Handles one event at `now` (never earlier than the last) and fills `actions`. After an error nothing has changed.
  Status Step(Instant now, const Event& event, Actions& actions);

  /// The id of a vGPU that could not be restored is given to no other.
  void KeepId(VgpuId id) { next_id_ = std::max(next_id_, id.value + 1); }

  [[nodiscard]] std::vector<DeviceStatus> Devices(Instant now) const;
  [[nodiscard]] std::vector<VgpuStatus> Vgpus(Instant now) const;
  /// The slots of a device. Empty if its memory is not elastic.
  [[nodiscard]] Result<MemoryMap> Memory(std::string_view device) const;
  /// Whether any device has elastic memory, so that executors' memory reports must be sampled.
  [[nodiscard]] bool elastic() const;
  Result<VgpuStatus> Vgpu(Instant now, VgpuId id) const;
  /// The status of the vGPU's promise. The default for an unknown vGPU.
  [[nodiscard]] PromiseStatus Promise(VgpuId id) const;
  /// The GPU time that was charged to a vGPU. `Vgpu` computes percentiles too, which takes a microsecond.
  [[nodiscard]] Result<Duration> GpuTotal(VgpuId id) const;
  /// The kind of sale of an existing vGPU.
  [[nodiscard]] core::Sale SaleOf(VgpuId id) const;
  /// Ratio of what the driver's account has charged to a vGPU recently to what its processes reported; 1 without an
  /// account. The device time of a frame, as its process measured it, is corrected by multiplication with this.
  [[nodiscard]] double ReportScale(VgpuId id) const;
  /// The vGPU with that name. kNotFound lists the existing names.
  Result<VgpuId> Find(std::string_view name) const;

 private:
  // Defined in node_state.h.
  struct Vgpu_;
  struct Device_;
  struct Memory_;

  Status On(Instant now, const CreateVgpu& event, Actions& actions);
  Status On(Instant now, const SetVgpu& event, Actions& actions);
  Status On(Instant now, const RemoveVgpu& event, Actions& actions);
  Status On(Instant now, const PauseVgpu& event, Actions& actions);
  Status On(Instant now, const SetPolicy& event, Actions& actions);
  Status On(Instant now, const SetOversell& event, Actions& actions);
  Status On(Instant now, const SetMemory& event, Actions& actions);
  Status On(Instant now, const SeeDeviceMemory& event, Actions& actions);
  Status On(Instant now, const SeeDeviceUse& event, Actions& actions);
  static core::VgpuUse UseOf(Vgpu_& vgpu, bool partial);
  static void Correct(Vgpu_& vgpu, const core::VgpuUse& use);
  static void LearnScale(Vgpu_& vgpu, const core::VgpuUse& use);
  Status On(Instant now, const ProcessAttached& event, Actions& actions);
  Status On(Instant now, const ProcessDraws& event, Actions& actions);
  Status On(Instant now, const ProcessDetached& event, Actions& actions);
  Status On(Instant now, const GatesSampled& event, Actions& actions);
  Status On(Instant now, const FramesDone& event, Actions& actions);

  std::unique_ptr<core::Policy> Make(const core::PolicyEntry& entry, const core::PolicyParams& checked) const;
  Result<Vgpu_*> Get(VgpuId id) const;
  [[nodiscard]] Vgpu_* Find(VgpuId id) const;
  [[nodiscard]] Vgpu_* FindBehind(const Vgpu_* last, VgpuId id) const;
  Result<Device_*> DeviceNamed(std::string_view name) const;
  static bool KeepsRates(const Device_& device);
  static void SeePromises(Instant now, Device_& device, Actions& actions);
  static void ComputeRateCaps(Instant now, Device_& device);
  static void CapRates(Instant now, Device_& device, Actions& actions);
  static std::vector<std::string> GivingWay(const Device_& device);
  static double NeedOf(Instant now, const Vgpu_& vgpu);
  static PromiseStatus PromiseOf(const Device_& device, const Vgpu_* vgpu, const VgpuSettings& settings);
  static Status CheckPromise(const Device_& device, const Vgpu_* vgpu, const VgpuSettings& asked);
  static std::optional<Duration> WaitsForOthersMost(Instant now, const Vgpu_& vgpu);
  static std::string Unkept(const Device_& device);
  static std::vector<std::string> WarningsOf(const Device_& device);
  VgpuStatus StatusOf(Instant now, const Vgpu_& vgpu, double device_use) const;
  static double UseOf(Instant now, const Device_& device);
  void TakeSample(Instant now, const GateSample& sample, Vgpu_& vgpu);
  void Decide(Instant now, Device_& device, Actions& actions);
  void Apply(Vgpu_& vgpu, core::Verdict verdict, Instant now, Actions& actions);
  static void AskForEnd(Vgpu_& vgpu, bool wanted, Actions& actions);
  void Redecide(Instant now, Actions& actions);
  static Error WithBuyers(Error refused, const Device_& device, VgpuId asking);
  void SeeSales(Instant now, Device_& device, Actions& actions);
  static Status CheckMemory(const Vgpu_& vgpu, const VgpuSettings& asked);
  void SeeMemory(Instant now, Device_& device, Actions& actions);
  void AskMemory(Instant now, Vgpu_& vgpu, Actions& actions);
  Result<std::unique_ptr<Memory_>> MakeMemory(const Device_& device, const SetMemory& set, std::uint32_t slots) const;
  [[nodiscard]] std::uint32_t SlotsBeside(const Device_& device, const SetMemory& set) const;
  void Say(const core::BalloonNote& note, const Device_& device, Actions& actions) const;
  static void AwaitAnswer(Instant now, Vgpu_& vgpu, Actions& actions);
  static void SayParts(Instant now, Vgpu_& vgpu, Actions& actions);
  static core::SlotNeed NeedOf(const Vgpu_& vgpu, const core::SlotArena& arena);
  static void RaiseContentsMax(Vgpu_& vgpu);
  static void BoundContents(Vgpu_& vgpu);
  static MemoryGrant MemoryOf(const Vgpu_& vgpu);
  static MemoryGrant ElasticMemoryOf(const Vgpu_& vgpu);
  static MemoryStatus MemoryOf(const Device_& device);
  /// Empty: there is no such vGPU.
  [[nodiscard]] std::string NameOf(VgpuId id) const;

  PolicyMaker maker_;
  std::vector<std::unique_ptr<Device_>> devices_;
  std::map<VgpuId, std::unique_ptr<Vgpu_>> vgpus_;
  std::map<std::string, VgpuId, std::less<>> names_;
  core::LateLooks looks_;
  const Vgpu_* drawn_last_ = nullptr;  // the vGPU of the last FramesDone
  std::uint64_t next_id_ = 1;
};

/// Whether a vGPU can have that name: 1 to kNameBytesMax letters, digits, '.', '_' and '-', not starting with '.' or
/// '-', since the name becomes a file name.
Status CheckName(std::string_view name);

}  // namespace weir::engine
