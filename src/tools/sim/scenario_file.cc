// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/common/nearest.h"
#include "platform/files.h"
#include "sim/metrics.h"
#include "tools/sim/cluster_section.h"
#include "tools/sim/migration_section.h"
#include "tools/sim/scenario_reader.h"

namespace weir::cli {
namespace {

using sim::Expectation;
using sim::Fault;
using sim::FaultKind;
using sim::Run;
using sim::Scenario;
using sim::ScenarioChange;
using sim::Scene;
using sim::Tenant;

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;
constexpr Duration kLaunch = microseconds(20);  // CPU time of a compute task's launch
constexpr std::size_t kTenantsMax = 1'000'000;

void ReadScene(ScenarioReader& reader, Scene& scene) {
  reader.Span("seconds", scene.length, 1);
  reader.Span("cpu_ms", scene.cpu, 1e-3, 60);
  reader.Span("gpu_ms", scene.gpu, 1e-3, 60);
  reader.Number("jitter", scene.jitter, 0, 0.95);
  reader.Number("spike", scene.spike, 0, 1000);
  reader.Whole("spike_every", scene.spike_every, 0, 1e9);
  if (!reader.Has("memory_mb")) return;
  Bytes memory;
  reader.Memory("memory_mb", memory);
  scene.memory = memory;
}

void ReadTenant(ScenarioReader& reader, Scenario& scenario) {
  Tenant tenant;
  int copies = 1;
  std::string kind = "frames";
  reader.Text("name", tenant.name);
  reader.Text("kind", kind);
  tenant.compute = kind == "compute";
  tenant.cpu_only = kind == "cpu";
  if (tenant.compute) tenant.present = kLaunch;
  reader.Settings(tenant.settings);
  reader.Whole("device", tenant.device, 0, static_cast<double>(scenario.devices.size()) - 1);
  if (reader.Has("gpu_ms") || (tenant.cpu_only && reader.Has("cpu_ms"))) {
    Scene scene;
    reader.Span("cpu_ms", scene.cpu, 1e-3, 60);
    reader.Span("gpu_ms", scene.gpu, 1e-3, 60);
    reader.Number("jitter", scene.jitter, 0, 0.95);
    reader.Number("spike", scene.spike, 0, 1000);
    reader.Whole("spike_every", scene.spike_every, 0, 1e9);
    tenant.scenes.push_back(scene);
  }
  reader.Each("scene", [&](ScenarioReader& one) { ReadScene(one, tenant.scenes.emplace_back()); });
  reader.Flag("repeat", tenant.repeat);
  reader.Span("present_ms", tenant.present, 1e-3, 1);
  reader.Span("batch_ms", tenant.batch, 1e-3, 10);
  reader.Whole("queue", tenant.queue, 1, 1000);
  reader.Memory("memory_mb", tenant.memory);
  reader.Memory("command_mb", tenant.command);
  reader.Number("dirty", tenant.dirty, 0, 1);
  reader.Span("slice_ms", tenant.slice, 1e-3, 60);
  reader.Span("period_ms", tenant.period, 1e-3, 3600);
  reader.Number("limit_fps", tenant.own_limit_fps, 0, 10'000);
  reader.Number("vsync_hz", tenant.vsync_hz, 0, 1'000);
  if (tenant.vsync_hz > 0) tenant.frames_ahead = sim::kFramesAheadOfTheBlank;
  reader.Whole("processes", tenant.processes, 1, 1000);
  reader.Span("start", tenant.start, 1);
  reader.Span("end", tenant.end, 1);
  bool best_effort = false;
  reader.Flag("customer", tenant.customer);
  reader.Flag("finishes", tenant.finishes);
  reader.Flag("best_effort", best_effort);
  if (best_effort) tenant.sale = core::Sale::kBestEffort;
  reader.Whole("copies", copies, 1, kTenantsMax);  // spread over the devices, NAME-1 …
  if (!tenant.compute && !tenant.cpu_only && kind != "frames")
    return reader.Complain(fmt::format("no kind '{}' of tenant: frames, compute, cpu", kind));
  if (!tenant.compute && (tenant.slice > Duration{0} || tenant.period > Duration{0}))
    return reader.Complain("slice_ms and period_ms are of tenants of the kind 'compute'");
  if (tenant.name.empty()) return reader.Complain("a tenant has no name");
  if (tenant.scenes.empty()) return reader.Complain(fmt::format("tenant '{}' has no scene: give gpu_ms", tenant.name));
  for (const Scene& scene : tenant.scenes)
    if (tenant.cpu_only ? scene.cpu <= Duration{0} : scene.gpu <= Duration{0})
      return reader.Complain(
          fmt::format("tenant '{}': {} must be above 0", tenant.name, tenant.cpu_only ? "cpu_ms" : "gpu_ms"));
  if (tenant.batch <= Duration{0})
    return reader.Complain(fmt::format("tenant '{}': batch_ms must be above 0", tenant.name));
  if (copies == 1) return scenario.tenants.push_back(tenant);
  for (int i = 0; i < copies; ++i) {
    Tenant copy = tenant;
    copy.name = fmt::format("{}-{}", tenant.name, i + 1);
    copy.device = static_cast<std::uint32_t>(static_cast<std::size_t>(i) % scenario.devices.size());
    scenario.tenants.push_back(std::move(copy));
  }
}

const Tenant* FindTenant(const Scenario& scenario, std::string_view name) {
  for (const Tenant& tenant : scenario.tenants)
    if (tenant.name == name) return &tenant;
  return nullptr;
}

/// Reads the settings of a tenant, changed by the keys of the table.
void ReadTenantSettings(ScenarioReader& reader, const Scenario& scenario, const std::string& name,
                        engine::VgpuSettings& settings) {
  const Tenant* tenant = FindTenant(scenario, name);
  if (tenant == nullptr) return reader.Complain(fmt::format("no tenant '{}'", name));
  settings = tenant->settings;
  reader.Settings(settings);
}

void AddRun(ScenarioReader& reader, Scenario& scenario, Run run) {
  for (const Run& other : scenario.runs)
    if (other.label == run.label) reader.Complain(fmt::format("two runs are called '{}'", run.label));
  scenario.runs.push_back(std::move(run));
}

void ReadRun(ScenarioReader& reader, Scenario& scenario) {
  Run run;
  reader.Text("label", run.label);
  reader.Policy(run.policy, run.params);
  reader.Oversell(run.oversell, run.oversell_params);
  reader.MemoryOfRun(run);
  if (scenario.migration) ReadMigrationRun(reader, *scenario.migration, run.migration);
  if (scenario.cluster) ReadClusterRun(reader, *scenario.cluster, run.cluster);
  reader.Names("only", run.only);
  for (const std::string& name : run.only)
    if (FindTenant(scenario, name) == nullptr) reader.Complain(fmt::format("no tenant '{}'", name));
  reader.Sub("settings", [&](ScenarioReader& all) {
    for (const auto& [key, value] : all.table()) {
      const std::string name(key.str());
      all.Sub(name.c_str(), [&](ScenarioReader& one) { ReadTenantSettings(one, scenario, name, run.settings[name]); });
    }
  });
  reader.Each("change", [&](ScenarioReader& one) {
    ScenarioChange& change = run.changes.emplace_back();
    one.Span("at", change.at, 1);
    one.Text("tenant", change.tenant);
    if (!change.tenant.empty())
      ReadTenantSettings(one, scenario, change.tenant, change.settings);
    else if (one.Has("oversell"))
      one.Oversell(change.oversell.emplace(), change.oversell_params);
    else
      one.Policy(change.policy, change.params);
  });
  if (run.label.empty()) run.label = run.policy;
  AddRun(reader, scenario, std::move(run));
}

/// Adds one run for each value of a parameter of overselling.
void ReadOversellSweep(ScenarioReader& reader, Scenario& scenario, const std::string& label, const Run& run) {
  std::string name;
  std::vector<double> values;
  reader.Text("oversell_param", name);
  reader.Numbers("values", values);
  if (run.oversell == core::OversellMode::kOff) reader.Complain("a sweep of an oversell_param needs 'oversell'");
  if (values.empty()) reader.Complain("a sweep of an oversell_param needs 'values', a list of numbers");
  for (const double value : values) {
    Run one = run;
    one.label = fmt::format("{}-{:g}", label, value);
    one.oversell_params[name] = value;
    const auto checked = core::CheckOversellParams(one.oversell_params);
    if (!checked) return reader.Complain(checked.error().message);
    AddRun(reader, scenario, std::move(one));
  }
}

/// Adds one run for each value of a tenant's setting or of a parameter of overselling, called LABEL-VALUE.
void ReadSweep(ScenarioReader& reader, Scenario& scenario) {
  Run run;
  std::string label, tenant_name;
  std::vector<double> values;
  reader.Text("label", label);
  reader.Policy(run.policy, run.params);
  reader.Oversell(run.oversell, run.oversell_params);
  reader.Names("only", run.only);
  if (scenario.migration) {
    return ReadMigrationSweep(reader, *scenario.migration, run, label,
                              [&](Run one) { AddRun(reader, scenario, std::move(one)); });
  }
  if (scenario.cluster) {
    return ReadClusterSweep(reader, *scenario.cluster, run, label,
                            [&](Run one) { AddRun(reader, scenario, std::move(one)); });
  }
  if (reader.Has("oversell_param")) return ReadOversellSweep(reader, scenario, label, run);
  reader.Text("tenant", tenant_name);
  const bool of_caps = reader.Has("cap");
  reader.Numbers(of_caps ? "cap" : "fps", values);
  const Tenant* tenant = FindTenant(scenario, tenant_name);
  if (tenant == nullptr) return reader.Complain(fmt::format("no tenant '{}'", tenant_name));
  if (values.empty()) reader.Complain("a sweep needs 'fps' or 'cap', a list of numbers");
  for (const double value : values) {
    if (of_caps && (value < 0.01 || value > 1)) reader.Complain("a sweep's 'cap' are from 0.01 to 1");
    if (value < 0 || value > 1000) reader.Complain("a sweep's 'fps' are from 0 to 1000");
    Run one = run;
    one.label = fmt::format("{}-{:g}", label, value);
    engine::VgpuSettings settings = tenant->settings;
    if (of_caps)
      settings.cap = Share::FromFraction(value);
    else
      settings.fps = value;
    one.settings.emplace(tenant_name, settings);
    AddRun(reader, scenario, std::move(one));
  }
}

void ReadFault(ScenarioReader& reader, Scenario& scenario) {
  static constexpr std::pair<std::string_view, FaultKind> kKinds[] = {{"daemon-crash", FaultKind::kDaemonCrash},
                                                                      {"process-kill", FaultKind::kProcessKill},
                                                                      {"device-stall", FaultKind::kDeviceStall},
                                                                      {"cpu-steal", FaultKind::kCpuSteal}};
  Fault fault;
  std::string kind;
  reader.Text("kind", kind);
  reader.Span("at", fault.at, 1);
  reader.Span("until", fault.until, 1);
  reader.Whole("device", fault.device, 0, static_cast<double>(scenario.devices.size()) - 1);
  reader.Text("tenant", fault.tenant);
  reader.Number("amount", fault.amount, 0, 0.95);
  bool known = false;
  for (const auto& [name, value] : kKinds) {
    if (name != kind) continue;
    known = true;
    fault.kind = value;
  }
  if (!known) reader.Complain(fmt::format("no fault '{}': daemon-crash, process-kill, device-stall, cpu-steal", kind));
  if (fault.until <= fault.at) reader.Complain("a fault needs 'until' after its 'at'");
  scenario.faults.push_back(fault);
}

/// The names of tenants in an expectation. A name may stand for several tenants ("a*").
std::vector<std::string> TenantsIn(const Expectation& expectation) {
  std::vector<std::string> names{expectation.tenant, expectation.per_tenant};
  for (const sim::Part& part : expectation.parts) names.push_back(part.tenant);
  return names;
}

/// The first tenant of the run that `name` fits; null: none.
const Tenant* TenantOfRun(const Scenario& scenario, const Run& run, const std::string& name) {
  const bool several = name.ends_with('*');
  for (const Tenant& tenant : scenario.tenants)
    if ((several ? tenant.name.starts_with(name.substr(0, name.size() - 1)) : tenant.name == name) &&
        (run.only.empty() || std::ranges::find(run.only, tenant.name) != run.only.end()))
      return &tenant;
  return nullptr;
}

/// Reports a metric, a run or a tenant that does not exist before the scenario is played. The figure is computed for
/// runs without content, and only errors about names count.
void CheckNames(ScenarioReader& reader, const Scenario& scenario, const Expectation& expectation) {
  std::vector<sim::RunRecord> runs;
  for (const Run& run : scenario.runs) {
    sim::RunRecord& record = runs.emplace_back();
    record.label = run.label;
    for (const std::string& name : TenantsIn(expectation))
      if (const Tenant* tenant = TenantOfRun(scenario, run, name)) record.tenants.emplace_back().name = tenant->name;
  }
  const auto value = sim::Measure(runs, expectation);
  if (value || value.error().code != Errc::kNotFound) return;
  std::vector<std::string> metrics;
  for (const sim::Metric& metric : sim::MetricTable()) metrics.emplace_back(metric.name);
  const std::string name = expectation.metric.substr(expectation.metric.rfind(':') + 1);
  const bool known = std::ranges::find(metrics, name) != metrics.end();
  reader.Complain(value.error().message + (known ? "" : cli::Suggestion(name, metrics)));
}

void ReadExpectation(ScenarioReader& reader, Scenario& scenario) {
  Expectation& e = scenario.expectations.emplace_back();
  const auto bound = [&](const char* key, std::optional<double>& value) {
    if (!reader.Has(key)) return;
    double number = 0;
    reader.Number(key, number, -1e12, 1e12);
    value = number;
  };
  reader.Text("metric", e.metric);
  reader.Text("run", e.run);
  reader.Text("tenant", e.tenant);
  reader.Each("parts", [&](ScenarioReader& one) {
    sim::Part& part = e.parts.emplace_back();
    one.Text("tenant", part.tenant);
    one.Number("from", part.from_s, 0, kForever);
    one.Number("to", part.to_s, 0, kForever);
  });
  reader.Number("from", e.from_s, 0, kForever);
  reader.Number("to", e.to_s, 0, kForever);
  reader.Text("per_run", e.per_run);
  reader.Text("per_tenant", e.per_tenant);
  reader.Number("parameter", e.parameter, 0, 1e9);
  reader.Text("paper", e.paper);
  reader.Text("note", e.note);
  bound("min", e.min);
  bound("max", e.max);
  if (!e.min && !e.max) reader.Complain("an expectation needs 'min', 'max' or both: without them it can't fail");
  if (!scenario.tenants.empty()) CheckNames(reader, scenario, e);
}

}  // namespace

Result<Scenario> ParseScenario(std::string_view text, const std::string& place) {
  const toml::parse_result parsed = toml::parse(text, place);
  if (!parsed)
    return Fail(Errc::kInvalidArgument,
                fmt::format("{}:{}: {}", place, parsed.error().source().begin.line, parsed.error().description()));
  Scenario scenario;
  ScenarioReader reader(parsed.table(), place);
  reader.Text("name", scenario.name);
  reader.Text("title", scenario.title);
  reader.Text("source", scenario.source);
  reader.Text("about", scenario.about);
  reader.Whole("seed", scenario.seed, 0, 9e15);
  reader.Span("seconds", scenario.span, 1, 1e6);
  reader.Span("warm_up", scenario.warm_up, 1, 1e6);
  reader.Sub("device", [&](ScenarioReader& one) {
    sim::Device device;
    int copies = 1;
    one.Text("name", device.name);
    one.Span("switch_us", device.model.switch_cost, 1e-6, 1);
    double link_gb_s = device.link_bytes_per_s * 1e-9;
    one.Memory("memory_mb", device.memory);
    one.Number("link_gb_s", link_gb_s, 0.001, 10'000);
    device.link_bytes_per_s = link_gb_s * 1e9;
    one.Number("cpu_steal", device.cpu_steal, 0, 0.95);
    one.Whole("cpus", device.cpus, 1, 4096);
    one.Number("copy_cpus", device.copy_cpus, 0, 4096);
    one.Span("entries_us", device.entries, 1e-6, 1);
    one.Span("returned_us", device.returned, 1e-6, 1);
    one.Whole("copies", copies, 1, 1'000'000);
    scenario.devices.assign(static_cast<std::size_t>(copies), device);
  });
  std::set<std::string> names;
  reader.Each("tenant", [&](ScenarioReader& one) {
    const std::size_t before = scenario.tenants.size();
    ReadTenant(one, scenario);
    for (std::size_t i = before; i < scenario.tenants.size(); ++i)
      if (const std::string& name = scenario.tenants[i].name; !names.insert(name).second)
        one.Complain(fmt::format("two tenants are called '{}'", name));
  });
  ReadMigrationWorld(reader, scenario.migration);
  ReadClusterWorld(reader, scenario.cluster);
  reader.Each("run", [&](ScenarioReader& one) { ReadRun(one, scenario); });
  reader.Each("sweep", [&](ScenarioReader& one) { ReadSweep(one, scenario); });
  reader.Each("fault", [&](ScenarioReader& one) { ReadFault(one, scenario); });
  reader.Each("expect", [&](ScenarioReader& one) { ReadExpectation(one, scenario); });
  if (scenario.name.empty()) reader.Complain("a scenario needs a 'name'");
  switch ((scenario.tenants.empty() ? 0 : 1) + (scenario.migration ? 1 : 0) + (scenario.cluster ? 1 : 0)) {
    case 0: reader.Complain("a scenario needs a [[tenant]], a [[task]] or a [[kernel]]"); break;
    case 1: break;
    default: reader.Complain("a scenario has tenants, tasks or kernels, and only one of these");
  }
  if (scenario.tenants.size() > kTenantsMax) reader.Complain("too many tenants");
  if (scenario.runs.empty()) reader.Complain("a scenario needs a [[run]] or a [[sweep]]");
  if (scenario.span <= Duration{0}) reader.Complain("'seconds' must be above 0");
  for (const Run& run : scenario.runs)
    if (run.memory != sim::MemoryMode::kFixed && scenario.devices.front().memory < kSlotBytes)
      reader.Complain(fmt::format("run '{}': its device needs a memory_mb of 64 and more", run.label));
  WEIR_TRY_STATUS(reader.End());
  return scenario;
}

namespace {

/// The folder beside an installed program, otherwise the one in the source tree of this build.
std::filesystem::path ScenarioFolder() {
  std::error_code none;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", none);
  auto installed = program.parent_path().parent_path() / "share/weir/scenarios";
  if (!none && std::filesystem::is_directory(installed, none)) return installed;
  return WEIR_SCENARIOS;
}

}  // namespace

Result<Scenario> LoadScenario(const std::string& file_or_name) {
  std::error_code none;
  std::filesystem::path path = file_or_name;
  const bool name = file_or_name.find('/') == std::string::npos && !file_or_name.ends_with(".toml");
  if (name) path = ScenarioFolder() / (file_or_name + ".toml");
  if (!std::filesystem::exists(path, none))
    return Fail(Errc::kNotFound, name ? fmt::format("no scenario '{}' in {}; weir sim list shows them", file_or_name,
                                                    ScenarioFolder().string())
                                      : fmt::format("no file {}", path.string()));
  WEIR_TRY(const std::string text, platform::ReadFile(path.string(), kFileBytesMax));
  return ParseScenario(text, path.filename().string());
}

Result<std::vector<std::string>> ListScenarios() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(ScenarioFolder(), error))
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  if (error) return Fail(Errc::kIo, fmt::format("cannot list {}: {}", ScenarioFolder().string(), error.message()));
  std::ranges::sort(names);
  return names;
}

}  // namespace weir::cli
