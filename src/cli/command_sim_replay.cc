// SPDX-License-Identifier: Apache-2.0
// weir sim replay: how recorded programs would run under another policy.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "cli/common/places.h"
#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "core/schedule/policy_table.h"
#include "emulator/device_file.h"
#include "tools/sim/replay.h"
#include "tools/sim/trace_file.h"

namespace weir::cli {
namespace {

struct ReplayFlags {
  std::vector<std::string> traces;
  std::string policy;
  std::vector<NamedValue> params;
  std::string device;
};

constexpr std::string_view kOfDescription = "emulated:";

/// The device with the daemon's name `name` in a description: emulated0 is the first.
Result<core::DeviceConfig> DescribedDevice(const std::string& wanted, const std::string& name) {
  if (!wanted.starts_with(kOfDescription))
    return Fail(Errc::kInvalidArgument,
                fmt::format("--device takes emulated:FILE, as weir serve does, not '{}'", wanted));
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  WEIR_TRY(const emulator::Emulated described,
           emulator::LoadDevices(wanted.substr(kOfDescription.size()), emulator::DescriptionFolders(self)));
  std::size_t number = 0;
  if (constexpr std::string_view kName = "emulated"; name.starts_with(kName))
    if (const auto given = ParseNumber(name.substr(kName.size()))) number = static_cast<std::size_t>(*given);
  if (number >= described.devices.size())
    return Fail(Errc::kNotFound, fmt::format("'{}' describes {} devices, and the traces are of {}", wanted,
                                             described.devices.size(), name));
  return described.devices[number].model;
}

void WarnOf(const Replay& replay, const std::string& device) {
  if (replay.emulated() && device.empty())
    Say("warning: the device was emulated; with --device emulated:FILE the model works as it did");
  for (std::size_t i = 0; i < replay.factors().size(); ++i)
    if (replay.factors()[i] <= Replay::kFactorMin || replay.factors()[i] >= Replay::kFactorMax)
      Say(
          fmt::format("warning: no time of its own makes the model of '{}' show its recorded rate: the modelled device "
                      "differs from the recorded one",
                      replay.recorded()[i].vgpu));
}

Result<core::PolicyParams> ParamsOf(const std::string& policy, const std::vector<NamedValue>& given) {
  WEIR_TRY(const core::PolicyEntry* entry, core::FindPolicy(policy));
  core::PolicyParams params;
  for (const auto& [name, value] : given) {
    if (const double* number = std::get_if<double>(&value)) {
      params[name] = *number;
    } else {
      WEIR_TRY(params[name], core::ValueOfChoice(*entry, name, std::get<std::string>(value)));
    }
  }
  return core::CheckParams(*entry, params);
}

struct ReplayOutcome {
  std::vector<Recorded> real, model;  // of the second half
  std::vector<Recorded> what_if;
};

void PrintReplayJson(const Replay& replay, const std::string& policy, const ReplayOutcome& played) {
  nlohmann::ordered_json out{
      {"recorded_policy", replay.policy()}, {"policy", policy}, {"vgpus", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < played.real.size(); ++i)
    out["vgpus"].push_back(
        {{"name", played.real[i].vgpu},
         {"factor", replay.factors()[i]},
         {"recorded", {{"fps", replay.recorded()[i].fps}, {"share", replay.recorded()[i].share}}},
         {"second_half", {{"fps", played.real[i].fps}, {"share", played.real[i].share}}},
         {"model_of_second_half", {{"fps", played.model[i].fps}, {"share", played.model[i].share}}},
         {"what_if",
          {{"fps", played.what_if[i].fps}, {"share", played.what_if[i].share}, {"gpu_use", played.what_if[i].use}}}});
  fmt::print("{}\n", out.dump(2));
}

void PrintReplayTables(const Replay& replay, const std::string& policy, const ReplayOutcome& played) {
  const bool color = StdoutTakesColor();
  constexpr auto kRight = Table::Align::kRight;
  fmt::print(
      "{} of frames of {} vGPUs, recorded under {}\n\nThe model, fitted to the first half, against the second:\n",
      FormatDuration(replay.span()), played.real.size(), replay.policy());
  Table check({{"VGPU"},
               {"RECORDED fps", kRight},
               {"MODEL fps", kRight},
               {"OFF BY", kRight},
               {"RECORDED share", kRight},
               {"MODEL share", kRight}});
  for (std::size_t i = 0; i < played.real.size(); ++i)
    check.Add({{played.real[i].vgpu, Style::kStrong},
               {fmt::format("{:.1f}", played.real[i].fps)},
               {fmt::format("{:.1f}", played.model[i].fps)},
               {OffText(played.model[i].fps, played.real[i].fps),
                std::abs(played.model[i].fps / played.real[i].fps - 1) < 0.05 ? Style::kGood : Style::kWarning},
               {fmt::format("{:.1f} %", played.real[i].share * 100)},
               {fmt::format("{:.1f} %", played.model[i].share * 100)}});
  fmt::print("{}\nWhat if: {}\n", check.Render(color), policy);
  Table then({{"VGPU"},
              {"RECORDED fps", kRight},
              {"THEN fps", kRight},
              {"RECORDED share", kRight},
              {"THEN share", kRight},
              {"OF DEVICE", kRight}});
  for (std::size_t i = 0; i < played.real.size(); ++i)
    then.Add({{played.real[i].vgpu, Style::kStrong},
              {fmt::format("{:.1f}", replay.recorded()[i].fps)},
              {fmt::format("{:.1f}", played.what_if[i].fps)},
              {fmt::format("{:.1f} %", replay.recorded()[i].share * 100)},
              {fmt::format("{:.1f} %", played.what_if[i].share * 100)},
              {FormatPercent(played.what_if[i].use)}});
  fmt::print(
      "{}\nThe programs' own work is taken to cost what it cost when it was recorded; on a software device it costs "
      "less\n"
      "where the others do less.\n",
      then.Render(color));
}

Result<int> RunReplay(const Session& session, const ReplayFlags& flags) {
  std::vector<proto::Trace> traces;
  for (const std::string& file : flags.traces) {
    WEIR_TRY(proto::Trace trace, LoadTrace(file));
    traces.push_back(std::move(trace));
  }
  WEIR_TRY(Replay replay, Replay::Make(std::move(traces)));
  const std::string policy = flags.policy.empty() ? replay.policy() : flags.policy;
  WEIR_TRY(core::PolicyParams params, ParamsOf(policy, flags.params));
  if (policy == replay.policy() && flags.params.empty()) params = replay.params();

  if (!flags.device.empty()) {
    WEIR_TRY(const core::DeviceConfig device, DescribedDevice(flags.device, replay.device()));
    replay.PlayOn(device);
  }
  replay.Calibrate();
  WarnOf(replay, flags.device);
  const ReplayOutcome played{replay.SecondHalf(), replay.PlaySecondHalf(), replay.Play(policy, params)};
  if (session.json) {
    PrintReplayJson(replay, policy, played);
    return 0;
  }
  PrintReplayTables(replay, policy, played);
  return 0;
}

}  // namespace

void AddSimReplay(Command sim, Session& session) {
  auto flags = std::make_shared<ReplayFlags>();
  const Command command = AddCommand(sim, "replay", "Simulate recorded programs under another policy",
                                     "  weir record game --trace game.wtrace --seconds 20 &\n"
                                     "  weir record render --trace render.wtrace --seconds 20\n"
                                     "  weir sim replay game.wtrace render.wtrace --policy hybrid\n",
                                     session);
  command.Add("traces", "FILE", flags->traces, "Traces of vGPUs of one device, recorded at the same time").Required();
  command.Add("--policy", "NAME", flags->policy, "The policy to try (default: that of the record)")
      .OneOf(NamesIn(core::PolicyTable()));
  command.Add("--device", "DEVICE", flags->device,
              "emulated:FILE, the description of the emulated device that was recorded");
  command.AddEachParsed("--param", "NAME=VALUE", flags->params, ParseNamedValue,
                        "A parameter of the policy; may be repeated");
  command.WhenGiven([flags, &session] { session.action = [flags, &session] { return RunReplay(session, *flags); }; });
}

}  // namespace weir::cli
