// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/scenario_reader.h"

#include <algorithm>

#include "core/memory/balloon.h"
#include "core/schedule/policy_table.h"
#include "sim/compared/compared_policies.h"

namespace weir::cli {

void ScenarioReader::Settings(engine::VgpuSettings& settings) {
  engine::VgpuSettings::Fields([&](const engine::SettingInfo& info, auto member) {
    auto& value = settings.*member;
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (engine::kIsChoice<Value>) {
      std::string choice(core::NameOf(value));
      const toml::node* node = table_.get(info.name);
      Text(info.name, choice);
      if (const Status set = engine::SetChoice(value, choice); !set && node != nullptr)
        Complain(*node, set.error().message);
    } else if constexpr (std::is_same_v<Value, Bytes>) {
      std::string name(info.name);
      Memory(name.replace(name.rfind("_bytes"), 6, "_mb").c_str(), value);
    } else if constexpr (std::is_same_v<Value, std::uint32_t>) {
      Whole(info.name, value, info.min, info.max);
    } else {
      double number = engine::SettingNumber(value);
      Number(info.name, number, info.min, info.max);
      engine::SetSettingNumber(value, number);
    }
  });
}

void ScenarioReader::Policy(std::string& policy, core::PolicyParams& params) {
  const toml::node* node = table_.get("policy");
  Text("policy", policy);
  const auto entry = sim::FindScenarioPolicy(policy);
  if (!entry) return Complain(node != nullptr ? *node : static_cast<const toml::node&>(table_), entry.error().message);
  if (const toml::table* given = Table("params"))
    for (const auto& [key, value] : *given) {
      const std::string name(key.str());
      if (const auto choice = value.value_exact<std::string>()) {
        const auto number = core::ValueOfChoice(**entry, name, *choice);
        if (!number) return Complain(value, number.error().message);
        params[name] = *number;
      } else if (const auto number = value.is_number() ? value.value<double>() : std::nullopt) {
        params[name] = *number;
      } else {
        return Complain(value, fmt::format("'{}' is neither a number nor a choice", name));
      }
    }
  const auto checked = core::CheckParams(**entry, params);
  if (!checked) return Complain(table_, checked.error().message);
  params = *checked;
}

void ScenarioReader::Oversell(core::OversellMode& mode, core::PolicyParams& params) {
  std::string name = core::NameOf(mode);
  Text("oversell", name);
  if (const auto named = core::ModeNamed(name))
    mode = *named;
  else
    return Complain(table_, named.error().message);
  if (const toml::table* given = Table("oversell_params"))
    for (const auto& [key, value] : *given) {
      const auto number = value.is_number() ? value.value<double>() : std::nullopt;
      if (!number) return Complain(value, fmt::format("'{}' is not a number", key.str()));
      params[std::string(key.str())] = *number;
    }
  const auto checked = core::CheckOversellParams(params);
  if (!checked) return Complain(table_, checked.error().message);
  params = *checked;
}

void ScenarioReader::MemoryOfRun(sim::Run& run) {
  static constexpr std::pair<std::string_view, sim::MemoryMode> kModes[] = {{"fixed", sim::MemoryMode::kFixed},
                                                                            {"elastic", sim::MemoryMode::kElastic},
                                                                            {"switched", sim::MemoryMode::kSwitched}};
  std::string name = "fixed";
  Text("memory", name);
  const auto* mode = std::ranges::find(kModes, name, &std::pair<std::string_view, sim::MemoryMode>::first);
  if (mode == std::end(kModes)) return Complain(table_, "'memory' is not one of: fixed, elastic, switched");
  run.memory = mode->second;
  const core::PolicyEntry entry{"memory", "", core::kBalloonParams, nullptr};
  if (const toml::table* given = Table("memory_params"))
    for (const auto& [key, value] : *given) {
      const std::string param(key.str());
      const auto choice = value.value_exact<std::string>();
      const auto number = choice              ? core::ValueOfChoice(entry, param, *choice)
                          : value.is_number() ? Result<double>(*value.value<double>())
                                              : Fail(Errc::kInvalidArgument, "neither a number nor a choice");
      if (!number) return Complain(value, fmt::format("'{}': {}", param, number.error().message));
      run.memory_params[param] = *number;
    }
  if (run.memory != sim::MemoryMode::kElastic && !run.memory_params.empty())
    return Complain(table_, "'memory_params' are of memory = \"elastic\"");
  const auto checked = core::CheckBalloonParams(run.memory_params);
  if (!checked) return Complain(table_, checked.error().message);
  if (run.memory == sim::MemoryMode::kElastic) run.memory_params = *checked;
  const auto maybe = [&](const char* key, std::optional<Bytes>& value) {
    if (!Has(key)) return;
    Bytes size;
    Memory(key, size);
    value = size;
  };
  maybe("memory_min_mb", run.memory_min);
  maybe("memory_max_mb", run.memory_max);
  if (!Has("copy_cpus")) return;
  double cpus = 0;
  Number("copy_cpus", cpus, 0, 1024);
  run.copy_cpus = cpus;
}

Status ScenarioReader::End() {
  for (const auto& [key, value] : table_)
    if (!taken_.contains(std::string(key.str()))) Complain(value, fmt::format("unknown key '{}'", key.str()));
  if (fault_.empty()) return Ok();
  return Fail(Errc::kInvalidArgument, fault_);
}

}  // namespace weir::cli
