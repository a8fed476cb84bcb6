// SPDX-License-Identifier: Apache-2.0
// A modelled node for tests of the engine: frame loops that share one device by processor sharing, gates with the real
// rules (reserve on entry, settle after), frames that keep their pace with the shims' pacer, and a daemon that polls
// when the engine asks for it. Virtual time in steps of 50 µs; every run is the same.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "core/schedule/frame_pacer.h"
#include "engine/decision_text.h"
#include "engine/node_engine.h"

namespace weir::testing {

struct ModelLoop {
  Duration think{};                // of the application outside of the device, for each frame
  Duration gpu = milliseconds(5);  // on the device, for each frame
  double jitter = 0.2;             // gpu is drawn from gpu·(1 ± jitter)
};

class ModelNode {
 public:
  static constexpr Duration kStep = microseconds(50);
  /// Executors' rule for long kernels: this is charged at the start, further use at every poll, and the difference at
  /// the end.
  static constexpr Duration kReservedMax = milliseconds(100);
  static constexpr Duration kPoll = milliseconds(100);
  /// Between two readings of the driver's account.
  static constexpr Duration kReading = milliseconds(100);

  explicit ModelNode(std::uint64_t seed = 1) : engine_({{"embedded", "software", {0}}}), prng_(seed) {}

  VgpuId AddVgpu(const std::string& name, engine::VgpuSettings settings) {
    Must(engine_.Step(now_, engine::CreateVgpu{name, "", settings, {}}, actions_));
    const VgpuId id = actions_.created;
    gates_[id];
    Carry();
    return id;
  }
  ProcessId AddProcess(VgpuId vgpu, const ModelLoop& loop) {
    const ProcessId id{++processes_made_};
    processes_.push_back(
        {.id = id, .vgpu = vgpu, .loop = loop, .phase = Phase::kThink, .think_until = now_ + loop.think});
    Must(engine_.Step(now_, engine::ProcessAttached{vgpu, id}, actions_));
    Carry();
    return id;
  }
  /// From its next frame on.
  void SetLoop(ProcessId id, const ModelLoop& loop) {
    for (Process& p : processes_)
      if (p.id == id) p.loop = loop;
  }
  void EndProcess(ProcessId id) {
    for (auto p = processes_.begin(); p != processes_.end(); ++p) {
      if (p->id != id) continue;
      const Duration unreported = p->phase == Phase::kGpu ? now_ - p->charged_at : Duration{0};
      const VgpuId vgpu = p->vgpu;
      processes_.erase(p);
      Must(engine_.Step(now_, engine::ProcessDetached{vgpu, id, unreported}, actions_));
      Carry();
      return;
    }
  }
  void SetPolicy(const std::string& name, const core::PolicyParams& params = {}) {
    Must(engine_.Step(now_, engine::SetPolicy{"", name, params}, actions_));
    Carry();
  }
  Status Do(const engine::Event& event) {
    Status status = engine_.Step(now_, event, actions_);
    if (status) Carry();
    return status;
  }

  /// From now on processes report the span of a frame on the device, which includes the turns of others, and the
  /// device's driver keeps an account that is read every kReading.
  void MeterSpans() {
    spans_ = true;
    next_reading_ = now_;
  }

  void RunFor(Duration span);

  /// GPU time used by the vGPU's processes according to the model, independent of the engine's accounting.
  [[nodiscard]] Duration Used(VgpuId vgpu) { return gates_[vgpu].used; }
  /// The use of all vGPUs since `before` was taken.
  struct Usage {
    std::map<VgpuId, Duration> used;
    Instant at;
  };
  [[nodiscard]] Usage Snapshot() {
    Usage usage{.used = {}, .at = now_};
    for (auto& [id, gate] : gates_) usage.used[id] = gate.used;
    return usage;
  }
  [[nodiscard]] double ShareSince(Usage& before, VgpuId vgpu) {
    Duration all{};
    for (auto& [id, gate] : gates_) all += gate.used - before.used[id];
    return SecondsOf(gates_[vgpu].used - before.used[vgpu]) / SecondsOf(all);
  }
  [[nodiscard]] double UseSince(Usage& before, VgpuId vgpu) {
    return SecondsOf(gates_[vgpu].used - before.used[vgpu]) / SecondsOf(now_ - before.at);
  }
  [[nodiscard]] double DeviceUseSince(Usage& before) {
    double all = 0;
    for (auto& [id, gate] : gates_) all += UseSince(before, id);
    return all;
  }
  std::int64_t& Allowance(VgpuId vgpu) { return gates_[vgpu].allowance; }
  engine::NodeEngine& engine() { return engine_; }
  [[nodiscard]] Instant now() const { return now_; }
  /// A decision since the last call.
  struct Noted {
    Instant at;
    engine::Note note;
  };
  std::vector<Noted> TakeNotes() { return std::exchange(notes_, {}); }
  /// The drain requests that were made or cancelled since the last call.
  std::vector<engine::DrainChange> TakeDrainChanges() { return std::exchange(leave_, {}); }
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  // A paced frame is synchronised before it is delayed, so its work on the device comes first, as with sync=finish.
  enum class Phase { kThink, kWait, kGpu, kPace };
  struct Process {
    ProcessId id;
    VgpuId vgpu;
    ModelLoop loop;
    Phase phase = Phase::kThink;
    Instant think_until;
    Instant begin = think_until - loop.think;
    Instant asked{};
    Instant passed{};
    double left_ns = 0;  // remaining time of this frame on the device
    double used_ns = 0;  // of the device, by the driver's account
    Duration cost{};
    Duration predicted{};
    Duration reserved{};
    Instant charged_at{};
    Instant polled_at{};
    Instant submit{};  // kPace: time of submission
    core::FramePacer pacer{};
  };
  struct Gate {
    proto::GateMode mode = proto::GateMode::kOpen;
    std::int64_t allowance = 0;
    Duration frame_interval{};
    Duration used{};
  };

  static void Must(const Status& status) { WEIR_CHECK(status.has_value()); }

  void Advance(Process& p);
  void RunDevice();
  void Poll(Process& p);
  void EndFrame(Process& p);
  void ReadAccount();
  void Look();
  void Carry();

  engine::NodeEngine engine_;
  engine::Actions actions_;
  engine::Actions scratch_;
  std::map<VgpuId, Gate> gates_;
  std::vector<Noted> notes_;
  std::vector<engine::DrainChange> leave_;
  std::vector<Process> processes_;
  std::vector<engine::GateSample> samples_;
  std::uint64_t processes_made_ = 0;
  std::uint64_t looks_ = 0;
  Instant now_ = InstantFromNs(1'000'000'000);
  Instant look_again_ = core::kNever;
  bool asleep_ = true;
  bool spans_ = false;
  Instant next_reading_{};
  Prng prng_;
};

}  // namespace weir::testing
