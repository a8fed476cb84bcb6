// SPDX-License-Identifier: Apache-2.0
// The node's state machine: Step(now, event) → actions. It owns every decision about vGPUs and does nothing itself; the
// daemon carries its actions out on real gates, the simulator on modelled ones.
//
//   vGPU:   idle ──attach──▶ running ◀──allowance──▶ waiting        paused: from any of them, until resumed
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/schedule/cap_bucket.h"
#include "engine/events.h"

namespace weir::core {
struct SlotNeed;
}

namespace weir::engine {

inline constexpr std::size_t kVgpusMax = 10'000;
inline constexpr std::size_t kNameBytesMax = 63;
/// 16 TiB of elastic memory.
inline constexpr std::uint64_t kSlotsMax = 1ULL << 18;
/// How long a vGPU may be in flight, or free to go on, with nothing of it beginning or ending, before it stops holding
/// others back. The time counts from the end of the work that was charged to any vGPU of the device: behind a long
/// kernel a vGPU waits and is not stuck. (A hidden window's present may block for ever; a hostile agent may claim to
/// wait.) A stuck vGPU is charged for what it uses. Of a process that dies in flight, at most this much is charged
/// beside what it had reserved.
inline constexpr Duration kStuckAfter = milliseconds(500);
/// The end of charged work is expected at most this far ahead: it bounds how long false charges hold others back.
inline constexpr Duration kChargedWorkMax = seconds(10);
/// A sample that claims more than this, beyond what the time since the last one allows, is not believed.
inline constexpr Duration kSpentSlack = seconds(60);

enum class VgpuState : std::uint8_t { kIdle, kRunning, kWaiting, kPaused };
const char* NameOf(VgpuState state);

/// Everything one can know about a vGPU, as a copy.
struct VgpuStatus {
  VgpuId id;
  std::string name;
  std::string device;
  VgpuState state = VgpuState::kIdle;
  VgpuSettings settings;
  core::Sale sale = core::Sale::kGuaranteed;
  Share cap_now = Share::Whole();  // at most the cap in its settings, which is its ceiling where a device is oversold
  std::size_t processes = 0;
  core::FrameTotals totals;
  core::FrameWindow window;
  Duration gpu_total{};  // charged since creation
  double gpu_use = 0;    // of the device's capacity, last second
  double gpu_share = 0;  // of what all vGPUs of the device used, last second
  std::uint64_t records_lost = 0;
  std::uint64_t records_bad = 0;
  std::uint64_t samples_bad = 0;
  // Elastic memory (docs/memory.md); in slots
  MemoryGrant memory;
  std::uint32_t memory_min = 0;
  bool memory_waits = false;   // a command waits for slots that are others' now
  MemorySample memory_sample;  // as its executor said last
};

struct SlotStatus {
  std::uint32_t sharers = 0;
  VgpuId owner{};  // whose it is now
  bool leaving = false;
};
struct MemoryHolder {
  VgpuId id;
  std::string name;
  std::vector<core::SlotRange> holds;
};
/// Which slots are whose.
struct MemoryMap {
  std::vector<SlotStatus> slots;
  std::vector<MemoryHolder> holders;  // by id
};

/// A device's elastic memory; no slots: it isn't.
struct MemoryStatus {
  std::uint32_t slots = 0;   // that are shared out
  std::uint32_t size = 0;    // of the device, as it was set
  std::uint32_t others = 0;  // of these other programs hold, as far as is known
  core::PolicyParams params;
  std::uint64_t guaranteed = 0;  // slots, all minima together
  std::uint64_t held = 0;        // all together
  double overhead = 0;           // f
  double steal = 0;              // W, %
  double copying = 0;            // R_copy, %
  core::MemoryPressure pressure{};
  std::uint64_t switches = 0;
};

struct DeviceStatus {
  DeviceSpec spec;
  std::string policy;
  core::PolicyParams params;
  std::size_t vgpus = 0;
  double gpu_use = 0;
  Duration gpu_total{};
  // Selling (docs/oversubscription.md)
  core::OversellMode oversell = core::OversellMode::kOff;
  core::PolicyParams oversell_params;
  double sold = 0;  // ceilings, in devices
  double load = 0;  // what promises need of the device
  core::SalesOffer offer;
  core::Account account;
  MemoryStatus memory;
};

/// Makes a policy of its entry in the table; tests put theirs in between.
using PolicyMaker = std::function<std::unique_ptr<core::Policy>(const core::PolicyEntry&, const core::PolicyParams&)>;

class NodeEngine {
 public:
  /// At least one device, names unique. Every device starts with kDefaultPolicy. `maker`: empty, as in any daemon.
  explicit NodeEngine(std::vector<DeviceSpec> devices, PolicyMaker maker = {});
  ~NodeEngine();
  NodeEngine(const NodeEngine&) = delete;
  NodeEngine& operator=(const NodeEngine&) = delete;

  /// Takes one event at `now` (never earlier than the last) and fills `actions`. An error means that nothing changed.
  Status Step(Instant now, const Event& event, Actions& actions);

  [[nodiscard]] std::vector<DeviceStatus> Devices(Instant now) const;
  [[nodiscard]] std::vector<VgpuStatus> Vgpus(Instant now) const;
  /// Of a device without elastic memory: empty.
  [[nodiscard]] Result<MemoryMap> Memory(std::string_view device) const;
  /// Whether somebody has to sample executors' books.
  [[nodiscard]] bool elastic() const;
  Result<VgpuStatus> Vgpu(Instant now, VgpuId id) const;
  /// The GPU time that was charged to a vGPU. `Vgpu` computes percentiles too, which takes a microsecond.
  [[nodiscard]] Result<Duration> GpuTotal(VgpuId id) const;
  /// As what it was sold; of a vGPU that there is.
  [[nodiscard]] core::Sale SaleOf(VgpuId id) const;
  /// What the driver's account has charged a vGPU lately, for each second that its processes reported; 1 without an
  /// account. The device time of a frame, as its process measured it, is right when multiplied by this.
  [[nodiscard]] double ReportScale(VgpuId id) const;
  /// kNotFound lists the existing names.
  Result<VgpuId> Find(std::string_view name) const;

 private:
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
  Status On(Instant now, const ProcessAttached& event, Actions& actions);
  Status On(Instant now, const ProcessDetached& event, Actions& actions);
  Status On(Instant now, const GatesSampled& event, Actions& actions);
  Status On(Instant now, const FramesDone& event, Actions& actions);

  std::unique_ptr<core::Policy> Make(const core::PolicyEntry& entry, const core::PolicyParams& checked) const;
  Result<Vgpu_*> Get(VgpuId id) const;
  Result<Device_*> DeviceNamed(std::string_view name) const;
  VgpuStatus StatusOf(Instant now, const Vgpu_& vgpu) const;
  void TakeSample(Instant now, const GateSample& sample, Vgpu_& vgpu);
  void Decide(Instant now, Device_& device, Actions& actions);
  void Apply(Vgpu_& vgpu, core::Verdict verdict, Instant now, Actions& actions);
  void Redecide(Instant now, Actions& actions);
  void SeeSales(Instant now, Device_& device, Actions& actions);
  void SeeMemory(Instant now, Device_& device, Actions& actions);
  void AskMemory(Instant now, Vgpu_& vgpu, Actions& actions);
  Result<std::unique_ptr<Memory_>> MakeMemory(const Device_& device, const SetMemory& set, std::uint32_t slots) const;
  [[nodiscard]] std::uint32_t SlotsBeside(const Device_& device, const SetMemory& set) const;
  void Say(const core::BalloonNote& note, const Device_& device, Actions& actions) const;
  static void AwaitAnswer(Instant now, Vgpu_& vgpu, Actions& actions);
  static void SayParts(Instant now, Vgpu_& vgpu, Actions& actions);
  static core::SlotNeed NeedOf(const Vgpu_& vgpu, const core::SlotArena& arena);
  static MemoryGrant MemoryOf(const Vgpu_& vgpu);
  static MemoryStatus MemoryOf(const Device_& device);
  std::string NameOf(VgpuId id) const;

  PolicyMaker maker_;
  std::vector<std::unique_ptr<Device_>> devices_;
  std::map<VgpuId, std::unique_ptr<Vgpu_>> vgpus_;
  std::map<std::string, VgpuId, std::less<>> names_;
  std::uint64_t next_id_ = 1;
};

/// Checks ranges; the message names the field, the value and what is allowed.
Status CheckSettings(const VgpuSettings& settings);
/// 1 … 63 of letters, digits, '.', '_' and '-', not starting with '.' or '-': it becomes a file's name.
Status CheckName(std::string_view name);

}  // namespace weir::engine
