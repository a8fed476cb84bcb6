// SPDX-License-Identifier: Apache-2.0
// Cost of one poll for the engine: samples in, a decision, grants out. 5 vGPUs are busy; the others have an idle
// process, or no process at all.
#include <benchmark/benchmark.h>

#include <set>
#include <string>
#include <vector>

#include "engine/node_engine.h"

namespace weir::engine {
namespace {

/// An engine with one device, and gates that spend what they are granted. They are sampled as the daemon does it.
class Looks {
 public:
  Looks(const char* policy, std::uint32_t vgpus, bool attached)
      : engine_(std::vector<DeviceSpec>{{.name = "gpu", .kind = "gpu", .cpus = {}}}) {
    Step(SetPolicy{.device = "gpu", .policy = policy, .params = {}});
    for (std::uint32_t i = vgpus; i-- > 0; now_ += milliseconds(1)) {  // each creation decides about the active ones
      Step(CreateVgpu{.name = "v" + std::to_string(i), .device = "gpu", .settings = {}, .id = VgpuId{i + 1}});
      if (attached || i < kBusy) Attach(VgpuId{i + 1});
    }
    for (int i = 0; i < 2'000; ++i) Look();  // until the idle ones rest
  }
  void Look() {
    now_ += milliseconds(1);
    busy_ = busy_ % kBusy + 1;
    samples_.clear();
    for (const VgpuId id : sampled_) {
      std::int64_t& allowance = allowances_[id.value];
      if (id.value == busy_) allowance -= 1'000'000;
      samples_.push_back({.vgpu = id, .allowance_ns = allowance, .waiting = id.value <= kBusy ? 1U : 0U});
    }
    Step(GatesSampled{samples_});
  }
  [[nodiscard]] std::size_t sampled() const { return sampled_.size(); }

 private:
  static constexpr std::uint32_t kBusy = 5;
  void Attach(VgpuId id) {
    sampled_.insert(id);
    Step(ProcessAttached{id, ProcessId{id.value}});
  }
  void Step(const Event& event) {
    static_cast<void>(engine_.Step(now_, event, actions_));
    allowances_.resize(20'000);
    for (const AllowanceGrant& grant : actions_.grant) allowances_[grant.vgpu.value] += grant.delta_ns;
    Follow();
  }
  void Follow() {
    for (const Rest& rest : actions_.rest)
      if (rest.resting)
        sampled_.erase(rest.vgpu);
      else
        sampled_.insert(rest.vgpu);
  }

  NodeEngine engine_;
  Actions actions_;
  Instant now_ = InstantFromNs(1'000'000'000);
  std::set<VgpuId> sampled_;
  std::vector<std::int64_t> allowances_;
  std::vector<GateSample> samples_;
  std::uint64_t busy_ = 0;
};

void BM_Look(benchmark::State& state, const char* policy, bool attached) {
  Looks looks(policy, static_cast<std::uint32_t>(state.range(0)), attached);
  for (auto _ : state) looks.Look();
  state.counters["sampled"] = static_cast<double>(looks.sampled());
}

#define WEIR_LOOK(name, policy)                                                                                       \
  BENCHMARK_CAPTURE(BM_Look, name##_idle, policy, true)->Arg(5)->Arg(100)->Arg(1'000)->Arg(9'999)->Iterations(5'000); \
  BENCHMARK_CAPTURE(BM_Look, name##_unattached, policy, false)->Arg(5)->Arg(1'000)->Arg(9'999)->Iterations(5'000)
WEIR_LOOK(proportional_share, "proportional-share");
WEIR_LOOK(cap, "cap");

}  // namespace
}  // namespace weir::engine
