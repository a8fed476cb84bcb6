// SPDX-License-Identifier: Apache-2.0
#include "sim/swarm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "sim/checkers.h"

namespace weir::sim {
namespace {

/// The range that a policy's parameter is drawn from: the sensible part of its range in the policy table.
struct Subset {
  std::string_view policy, param;
  double low = 0, high = 0;
};
constexpr std::array kSubsets{
    Subset{"proportional-share", "quantum_ms", 1, 10},
    Subset{"proportional-share", "lag_ms", 100, 400},
    Subset{"proportional-share", "grace_ms", 0, 20},
    Subset{"proportional-share", "hold_duty", 0.3, 1},
    Subset{"proportional-share", "member_ms", 500, 3000},
    Subset{"proportional-share", "tick_ms", 0.5, 3},
    Subset{"sla-aware", "fps", 15, 60},
    Subset{"hybrid", "fps", 15, 60},
    Subset{"hybrid", "fps_slack", 0, 0.2},
    Subset{"hybrid", "gpu_use", 0.5, 0.95},
    Subset{"hybrid", "wait_s", 1, 5},
    Subset{"reserve", "period_ms", 0.5, 8},
    Subset{"round-robin", "quantum_ms", 0.5, 8},
    Subset{"round-robin", "tick_ms", 0.3, 2},
};

constexpr std::string_view kCapRates = "cap_rates", kFrameStart = "frame_start";

/// Draws a scenario. Each feature that was added later has a random stream of its own, so that a seed still gives the
/// same scenario as before where the feature is not drawn. The constants are "swarm", "memory", "sell", "blank",
/// "rates" and "starts" in ASCII; they keep the streams apart from each other and from the run's own.
class Drawer {
 public:
  explicit Drawer(
      std::uint64_t seed)  // of all streams; the run that plays the scenario has a stream from the same seed itself
      : prng_(seed ^ 0x7377'6172'6D00ULL),
        memory_(seed ^ 0x6D65'6D6F'7279ULL),
        selling_(seed ^ 0x7365'6C6C'0000ULL),
        blanks_(seed ^ 0x626C'616E'6B00ULL),
        rates_(seed ^ 0x7261'7465'7300ULL),
        starts_(seed ^ 0x7374'6172'7473ULL) {}

  Scenario Draw() {
    Scenario scenario;
    scenario.span = kSwarmSpan;
    Run run{.label = "swarm"};
    DrawPolicy(run.policy, run.params);
    constexpr std::array kDevices{1, 1, 1, 1, 1, 2, 2, 3, 4};
    scenario.devices.clear();
    const int devices = Pick(kDevices);
    for (int i = 0; i < devices; ++i) scenario.devices.push_back(DrawDevice(i));
    const std::int64_t tenants = prng_.Between(1, Chance(0.3) ? 12 : 6);
    light_ = Chance(run.policy == "sla-aware" ? 0.6 : 0.15);
    for (std::int64_t i = 0; i < tenants; ++i) scenario.tenants.push_back(DrawTenant(i, devices));
    DrawChanges(scenario, run);
    DrawFaults(scenario);
    DrawMemory(scenario, run);
    DrawSelling(scenario, run);
    DrawBlanks(scenario);
    DrawLater(run, kCapRates, rates_);
    DrawLater(run, kFrameStart, starts_);
    scenario.runs.push_back(std::move(run));
    return scenario;
  }

 private:
  bool Chance(double p) { return prng_.Uniform() < p; }
  template <typename T, std::size_t N>
  T Pick(const std::array<T, N>& choices) {
    return choices[static_cast<std::size_t>(prng_.Between(0, N - 1))];
  }
  Duration Us(std::int64_t low, std::int64_t high) { return microseconds(prng_.Between(low, high)); }
  Duration Ms(std::int64_t low, std::int64_t high) { return milliseconds(prng_.Between(low, high)); }
  /// A multiple of 0.01, for readable descriptions.
  double Real(double low, double high) {
    return static_cast<double>(
               prng_.Between(static_cast<std::int64_t>(low * 100), static_cast<std::int64_t>(high * 100))) /
           100;
  }

  void DrawPolicy(std::string& name, core::PolicyParams& params) {
    const auto table = core::PolicyTable();
    const core::PolicyEntry& entry = table[static_cast<std::size_t>(prng_.Between(0, std::ssize(table) - 1))];
    name = entry.name;
    params.clear();
    for (const core::PolicyParam& param : entry.params) {
      // DrawLater draws these two.
      if (param.name == kCapRates || param.name == kFrameStart || Chance(0.5)) continue;
      if (!param.choices.empty()) {
        params[std::string(param.name)] = static_cast<double>(prng_.Between(0, std::ssize(param.choices) - 1));
        continue;
      }
      for (const Subset& subset : kSubsets)
        if (subset.policy == entry.name && subset.param == param.name) {
          const double value = Real(subset.low, subset.high);
          params[std::string(param.name)] = std::clamp(value, param.min, param.max);
        }
    }
  }

  Device DrawDevice(int index) {
    Device device{.name = fmt::format("gpu{}", index)};
    if (Chance(0.3)) device.model.switch_cost = Us(1, 50);
    if (Chance(0.2)) device.cpu_steal = Real(0, 0.3);
    return device;
  }

  Scene DrawScene() {
    Scene scene;
    const double kind = prng_.Uniform();
    if (light_) {
      scene.cpu = Us(0, 4'000);
      scene.gpu = Us(200, 2'000);
    } else if (kind < 0.55) {  // keeps the device busy
      scene.cpu = kind < 0.35 ? Duration{0} : Us(0, 500);
      scene.gpu = Us(2'000, 30'000);
    } else {
      scene.cpu = Us(1'000, 12'000);
      scene.gpu = Us(500, 12'000);
    }
    scene.jitter = Real(0, 0.5);
    if (Chance(0.2)) {
      scene.spike = Real(0.5, 3);
      scene.spike_every = static_cast<int>(prng_.Between(20, 200));
    }
    return scene;
  }

  engine::VgpuSettings DrawSettings() {
    constexpr std::array kRates{15.0, 24.0, 25.0, 30.0, 50.0, 60.0};
    engine::VgpuSettings settings;
    settings.weight = static_cast<std::uint32_t>(Chance(0.1) ? prng_.Between(200, 600) : prng_.Between(10, 100));
    if (Chance(0.25)) settings.cap = Share::FromFraction(Real(0.05, 0.9));
    if (Chance(0.5)) settings.fps = Pick(kRates);
    if (Chance(0.15)) settings.latency = Ms(20, 100);
    return settings;
  }

  Tenant DrawTenant(std::int64_t index, int devices) {
    Tenant tenant;
    tenant.name = fmt::format("t{}", index);
    tenant.device = static_cast<std::uint32_t>(prng_.Between(0, devices - 1));
    tenant.settings = DrawSettings();
    const int scenes = Chance(0.2) ? 2 : 1;
    for (int i = 0; i < scenes; ++i) tenant.scenes.push_back(DrawScene());
    if (scenes > 1)
      for (Scene& scene : tenant.scenes) scene.length = Ms(500, 4'000);
    tenant.present = Us(50, 1'000);
    tenant.batch = Us(500, 6'000);
    tenant.queue = static_cast<int>(prng_.Between(1, 6));
    if (Chance(0.1)) tenant.own_limit_fps = Chance(0.5) ? 60 : 30;
    if (Chance(0.2)) tenant.processes = static_cast<int>(prng_.Between(2, 3));
    if (Chance(0.3)) tenant.start = Ms(100, 7'000);
    if (Chance(0.15)) tenant.end = tenant.start + Ms(500, 2'000);
    return tenant;
  }

  void DrawChanges(const Scenario& scenario, Run& run) {
    const std::int64_t count = Chance(0.5) ? prng_.Between(1, 4) : 0;
    std::string last;
    for (std::int64_t i = 0; i < count; ++i) {
      ScenarioChange change;
      change.at = Ms(500, 8'000);
      if (Chance(0.4)) {
        DrawPolicy(change.policy, change.params);
      } else {
        // Sometimes the same tenant again, whose settings then change back or further.
        const auto any = static_cast<std::size_t>(prng_.Between(0, std::ssize(scenario.tenants) - 1));
        change.tenant = last.empty() || Chance(0.5) ? scenario.tenants[any].name : last;
        last = change.tenant;
        change.settings = DrawSettings();
      }
      run.changes.push_back(std::move(change));
    }
    std::ranges::stable_sort(run.changes, {}, &ScenarioChange::at);
  }

  void DrawFaults(Scenario& scenario) {
    const std::int64_t count = Chance(0.6) ? prng_.Between(1, 5) : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      constexpr std::array kKinds{FaultKind::kDaemonCrash, FaultKind::kProcessKill, FaultKind::kDeviceStall,
                                  FaultKind::kCpuSteal};
      Fault fault{.kind = Pick(kKinds)};
      fault.at = Ms(300, 7'500);
      fault.until = std::min<Duration>(fault.at + Ms(1, 3'000), kMended);
      fault.device = static_cast<std::uint32_t>(prng_.Between(0, std::ssize(scenario.devices) - 1));
      if (fault.kind == FaultKind::kProcessKill)
        fault.tenant =
            scenario.tenants[static_cast<std::size_t>(prng_.Between(0, std::ssize(scenario.tenants) - 1))].name;
      if (fault.kind == FaultKind::kCpuSteal) fault.amount = Real(0.1, 0.9);
      scenario.faults.push_back(std::move(fault));
    }
    std::ranges::stable_sort(scenario.faults, {}, &Fault::at);
  }

  /// Draws elastic memory for some scenarios.
  void DrawMemory(Scenario& scenario, Run& run) {
    if (memory_.Uniform() >= 0.3) return;
    std::swap(prng_, memory_);
    constexpr std::array kSlots{8, 16, 24, 54};
    constexpr std::int64_t kCommandMax = 3;  // slots; no tenant's maximum is less
    run.memory = MemoryMode::kElastic;
    run.memory_params = {{"layout", Chance(0.5) ? 1.0 : 0.0},
                         {"turn_ms", static_cast<double>(prng_.Between(10, 300))},
                         {"turn_copies", static_cast<double>(prng_.Between(1, 4))},
                         {"look_ms", static_cast<double>(prng_.Between(50, 500))}};
    run.memory_params = *core::CheckBalloonParams(run.memory_params);
    const std::int64_t slots = Pick(kSlots);
    for (Device& device : scenario.devices) {
      device.memory = MiB(static_cast<std::uint64_t>(slots) * 64);
      device.link_bytes_per_s = static_cast<double>(prng_.Between(20, 200)) * 1e9;
      device.cpus = static_cast<std::uint32_t>(prng_.Between(1, 8));
      device.copy_cpus = Chance(0.3) ? 1 : 0;
    }
    const auto some = [&](std::int64_t low, std::int64_t high) {
      return MiB(static_cast<std::uint64_t>(prng_.Between(low * 64, high * 64)));
    };
    // Minima are small: those of twelve tenants come to about half of the device on average.
    const auto bound = [&](engine::VgpuSettings& settings) {
      settings.memory_min = Chance(0.3) ? Bytes{} : some(0, slots / 8);
      settings.memory_max = Chance(0.3) ? Bytes{} : some(std::max(kCommandMax, slots / 8), slots);
    };
    for (Tenant& tenant : scenario.tenants) {
      bound(tenant.settings);
      tenant.memory = Chance(0.1) ? Bytes{} : some(1, slots * 5 / 4);
      if (Chance(0.3)) tenant.command = some(1, kCommandMax);
      tenant.dirty = Chance(0.5) ? 1 : Real(0, 1);
      for (Scene& scene : tenant.scenes)
        if (Chance(0.3)) scene.memory = some(0, slots);
    }
    for (ScenarioChange& change : run.changes)
      if (!change.tenant.empty()) bound(change.settings);
    std::swap(prng_, memory_);
  }

  /// Draws for some scenarios how devices are sold: the mode and its changes, and customers that come and go.
  void DrawSelling(Scenario& scenario, Run& run) {
    if (selling_.Uniform() >= 0.4) return;
    std::swap(prng_, selling_);
    DrawWay(run.oversell, run.oversell_params);
    if (Chance(0.7)) DrawCap(run);
    for (Tenant& tenant : scenario.tenants) {
      tenant.settings.cap = DrawCeiling();
      if (Chance(0.2)) {
        tenant.sale = core::Sale::kBestEffort;
        if (Chance(0.5)) tenant.settings.cap = Share::Whole();
      }
      tenant.customer = Chance(0.8) || !Fits(scenario, run, tenant);
      if (tenant.customer && Chance(0.3)) tenant.end = tenant.start + Ms(1'000, 12'000);
      if (Chance(0.4)) MakeLight(tenant);
    }
    for (ScenarioChange& change : run.changes)
      if (!change.tenant.empty()) change.settings.cap = DrawCeiling();
    for (std::int64_t i = Chance(0.4) ? prng_.Between(1, 3) : 0; i > 0; --i) {
      ScenarioChange& change = run.changes.emplace_back();
      change.at = Ms(500, 8'000);
      DrawWay(change.oversell.emplace(), change.oversell_params);
    }
    std::ranges::stable_sort(run.changes, {}, &ScenarioChange::at);
    std::swap(prng_, selling_);
  }

  /// Draws programs whose presents wait for vertical blanks.
  void DrawBlanks(Scenario& scenario) {
    if (blanks_.Uniform() >= 0.3) return;
    std::swap(prng_, blanks_);
    constexpr std::array kScreens{30.0, 60.0, 60.0, 75.0, 144.0};
    for (Tenant& tenant : scenario.tenants) {
      if (!Chance(0.4)) continue;
      tenant.vsync_hz = Pick(kScreens);
      tenant.frames_ahead = kFramesAheadOfTheBlank;
    }
    std::swap(prng_, blanks_);
  }

  /// Draws one parameter, 0 or 1, for those of the run's policies that have it.
  static void DrawLater(Run& run, std::string_view param, Prng& stream) {
    if (stream.Uniform() >= 0.4) return;
    const auto draw = [&](std::string_view policy, core::PolicyParams& params) {
      const auto entry = core::FindPolicy(policy);
      if (entry && std::ranges::find((*entry)->params, param, &core::PolicyParam::name) != (*entry)->params.end())
        params[std::string(param)] = stream.Uniform() < 0.8 ? 1 : 0;
    };
    draw(run.policy, run.params);
    for (ScenarioChange& change : run.changes)
      if (change.of_policy()) draw(change.policy, change.params);
  }

  void DrawWay(core::OversellMode& mode, core::PolicyParams& params) {
    using enum core::OversellMode;
    constexpr std::array kWays{kOff, kStrict, kStatic, kAdaptive, kAdaptive, kAdaptive};
    constexpr std::array kSpans{0.0, 5.0, 60.0};
    mode = Pick(kWays);
    params = {{"ratio", Real(1, 4)},
              {"stage_ms", static_cast<double>(prng_.Between(50, 200))},
              {"report_ms", static_cast<double>(prng_.Between(500, 1500))},
              {"low_line", Real(0.3, 1)},
              {"load_span_s", Pick(kSpans)},
              {"calm_reports", static_cast<double>(prng_.Between(1, 3))},
              {"margin", Real(0, 0.1)},
              {"steal", Real(0, 1)}};
    params = *core::CheckOversellParams(params);
  }

  /// Chooses the policy `cap`, which keeps caps by time slices. Guarantees of sold vGPUs are checked only under it.
  void DrawCap(Run& run) {
    run.policy = "cap";
    run.params = {{"quantum_ms", Real(0.5, 10)}, {"ahead_ms", Chance(0.3) ? 0 : Real(0.5, 5)}};
    if (Chance(0.7)) std::erase_if(run.changes, [](const ScenarioChange& change) { return change.of_policy(); });
  }

  Share DrawCeiling() { return Chance(0.1) ? Share::Whole() : Share::FromFraction(Real(0.05, 0.5)); }

  /// Whether the tenant can have a vGPU from the beginning, beside those that precede it.
  static bool Fits(const Scenario& scenario, const Run& run, const Tenant& tenant) {
    if (run.oversell == core::OversellMode::kOff || tenant.sale == core::Sale::kBestEffort) return true;
    double sum = 0;
    for (const Tenant& one : scenario.tenants) {
      const bool counts = one.device == tenant.device && !one.customer && one.sale != core::Sale::kBestEffort;
      if (&one > &tenant) break;
      sum += counts ? one.settings.cap.Fraction() : 0;
    }
    const double most = run.oversell == core::OversellMode::kStatic
                            ? core::ParamsFrom<core::OversellParams>(run.oversell_params).ratio
                            : 1;
    return sum <= most;
  }

  /// Makes the tenant's frames so short that a part of its ceiling suffices for its promised rate.
  void MakeLight(Tenant& tenant) {
    for (Scene& scene : tenant.scenes) {
      scene.cpu = Us(500, 5'000);
      scene.gpu = Us(200, 2'000);
    }
    if (tenant.settings.fps == 0 && Chance(0.7)) tenant.settings.fps = 30;
  }

  Prng prng_;
  Prng memory_;
  Prng selling_;
  Prng blanks_;
  Prng rates_;
  Prng starts_;
  bool light_ = false;  // all programs have short frames, so that the device suffices for them
};

double Ms(Duration d) { return MillisecondsOf(d); }

std::string PolicyText(const std::string& policy, const core::PolicyParams& params) {
  std::string out = policy;
  for (const auto& [name, value] : params) out += fmt::format(" {}={:g}", name, value);
  return out;
}

std::string SceneText(const Scene& scene) {
  std::string out = fmt::format("{:g} + {:g} ms ± {:g} %", Ms(scene.cpu), Ms(scene.gpu), scene.jitter * 100);
  if (scene.spike_every > 0) out += fmt::format(", one in {} × {:g}", scene.spike_every, 1 + scene.spike);
  if (scene.length > Duration{0}) out += fmt::format(" for {:g} s", SecondsOf(scene.length));
  if (scene.memory) out += fmt::format(", {} MiB", scene.memory->count >> 20);
  return out;
}

std::string SellingText(core::OversellMode mode, const core::PolicyParams& params) {
  return PolicyText(fmt::format("sold {}", core::NameOf(mode)), params);
}

std::string ChangeText(const ScenarioChange& change) {
  if (change.oversell) return SellingText(*change.oversell, change.oversell_params);
  return change.of_policy() ? "policy " + PolicyText(change.policy, change.params)
                            : change.tenant + ": " + engine::SettingsText(change.settings);
}

std::string FaultText(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kDaemonCrash: return fmt::format("the daemon of device {} is dead", fault.device);
    case FaultKind::kProcessKill: return fmt::format("a process of {} is killed", fault.tenant);
    case FaultKind::kDeviceStall: return fmt::format("device {} stalls", fault.device);
    case FaultKind::kCpuSteal: return fmt::format("{:g} of device {}'s CPUs are taken", fault.amount, fault.device);
  }
  return "";
}

}  // namespace

Scenario DrawScenario(std::uint64_t seed) {
  Scenario scenario = Drawer(seed).Draw();
  scenario.name = fmt::format("swarm-{}", seed);
  scenario.seed = seed;
  return scenario;
}

SeedPlayed PlaySeed(std::uint64_t seed, const Tamper& tamper) {
  SeedPlayed played{.seed = seed, .scenario = DrawScenario(seed)};
  const Run& run = played.scenario.runs.front();
  Simulation simulation(played.scenario, run, {.seed = seed, .keep_frames = false, .tamper = tamper});
  simulation.RunUntil(played.scenario.span);
  played.record = simulation.Take();
  played.objections = played.record.violations;
  std::ranges::move(CheckRun(played.scenario, run, played.record), std::back_inserter(played.objections));
  return played;
}

std::string Describe(const Scenario& scenario) {
  const Run& run = scenario.runs.front();
  std::string out = fmt::format("policy {}, {:g} s\n", PolicyText(run.policy, run.params), SecondsOf(scenario.span));
  if (run.memory == MemoryMode::kElastic) out += PolicyText("elastic memory", run.memory_params) + "\n";
  if (Sells(run)) out += SellingText(run.oversell, run.oversell_params) + "\n";
  for (std::size_t d = 0; d < scenario.devices.size(); ++d) {
    const Device& device = scenario.devices[d];
    out += fmt::format("device {}: switch {:g} µs, {:g} of the CPUs taken", d, Ms(device.model.switch_cost) * 1e3,
                       device.cpu_steal);
    if (run.memory == MemoryMode::kElastic)
      out += fmt::format(", {} MiB behind {:g} GB/s, {} CPUs, {:g} of them copy", device.memory.count >> 20,
                         device.link_bytes_per_s * 1e-9, device.cpus, device.copy_cpus);
    out += '\n';
  }
  for (const Tenant& tenant : scenario.tenants) {
    out += fmt::format("{} on device {}: {}; {} process{}, present {:g} ms, {} batches of {:g} ms", tenant.name,
                       tenant.device, engine::SettingsText(tenant.settings), tenant.processes,
                       tenant.processes == 1 ? "" : "es", Ms(tenant.present), tenant.queue, Ms(tenant.batch));
    if (tenant.memory.count > 0)
      out += fmt::format(", {} MiB, {} at once, {:g} dirty", tenant.memory.count >> 20, tenant.command.count >> 20,
                         tenant.dirty);
    if (tenant.vsync_hz > 0) out += fmt::format(", vertical blanks at {:g} Hz", tenant.vsync_hz);
    if (tenant.own_limit_fps > 0) out += fmt::format(", its own limit {:g} frames/s", tenant.own_limit_fps);
    if (tenant.customer) out += ", a customer";
    if (tenant.sale == core::Sale::kBestEffort) out += ", best effort";
    if (tenant.start > Duration{0}) out += fmt::format(", from {:g} s", SecondsOf(tenant.start));
    if (tenant.end > Duration{0}) out += fmt::format(", to {:g} s", SecondsOf(tenant.end));
    out += '\n';
    for (const Scene& scene : tenant.scenes) out += fmt::format("  a frame: {}\n", SceneText(scene));
  }
  for (const ScenarioChange& change : run.changes)
    out += fmt::format("at {:g} s: {}\n", SecondsOf(change.at), ChangeText(change));
  for (const Fault& fault : scenario.faults)
    out += fmt::format("{:g} … {:g} s: {}\n", SecondsOf(fault.at), SecondsOf(fault.until), FaultText(fault));
  return out;
}

}  // namespace weir::sim
