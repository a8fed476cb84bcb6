// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <fmt/format.h>

#include <string_view>

#include "cli/table.h"
#include "cli/text_units.h"

namespace weir::cli {
namespace {

constexpr std::size_t kBarColumns = 10;
constexpr std::size_t kProgramsMax = 3;  // named; of more only the number is shown

Style StyleOfState(std::string_view state) {
  if (state == "running") return Style::kGood;
  if (state == "waiting") return Style::kAccent;
  if (state == "paused") return Style::kWarning;
  return Style::kFaint;
}

std::string ProgramsText(const VgpuView& v) {
  std::string text;
  for (std::size_t i = 0; i < v.processes.size() && i < kProgramsMax; ++i)
    text += fmt::format("{}{}({})", i == 0 ? "" : " ", v.processes[i].program, v.processes[i].pid);
  if (v.processes.size() > kProgramsMax) text += fmt::format(" and {} more", v.processes.size() - kProgramsMax);
  return text;
}

/// Below what was promised by more than what an average over a second wavers by.
bool IsBehind(const VgpuView& v) {
  return v.settings.fps > 0 && v.window.fps > 0 && v.window.fps < 0.97 * v.settings.fps;
}

}  // namespace

Result<Snapshot> TakeSnapshot(const ControlClient& client) {
  Snapshot snapshot;
  WEIR_TRY(const auto devices, client.Get("/v1/devices"));
  WEIR_TRY(snapshot.devices, DevicesFromJson(devices));
  WEIR_TRY(const auto vgpus, client.Get("/v1/vgpus"));
  WEIR_TRY(snapshot.vgpus, VgpusFromJson(vgpus));
  return snapshot;
}

std::string RenderTop(const Snapshot& snapshot, bool color) {
  std::string out;
  for (const DeviceView& d : snapshot.devices)
    out += fmt::format("{}  {}{}{}  GPU {} {:>4}\n", Styled(Printable(d.name), Style::kStrong, color),
                       Styled(Printable(d.policy), Style::kAccent, color), d.policy_params.empty() ? "" : " ",
                       Printable(d.policy_params), Bar(d.gpu_use, 2 * kBarColumns), FormatPercent(d.gpu_use));
  out += '\n';
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"VGPU"},
               {"STATE"},
               {"WEIGHT", kRight},
               {"CAP", kRight},
               {"PROMISE"},
               {"FPS", kRight},
               {"MEAN ms", kRight},
               {"P99 ms", kRight},
               {"GPU", kRight},
               {"SHARE", kRight},
               {""},
               {"WAIT", kRight},
               {"LATE", kRight},
               {"PROGRAMS"}});
  for (const VgpuView& v : snapshot.vgpus)
    table.Add({{v.name, Style::kStrong},
               {v.state, StyleOfState(v.state)},
               {fmt::format("{:g}", v.settings.weight)},
               {FormatPercent(v.settings.cap)},
               {PromiseText(v)},
               {fmt::format("{:.1f}", v.window.fps), IsBehind(v) ? Style::kBad : Style::kPlain},
               {fmt::format("{:.2f}", v.window.frame_ms_mean)},
               {fmt::format("{:.2f}", v.window.frame_ms_p99)},
               {FormatPercent(v.window.gpu_use)},
               {FormatPercent(v.window.gpu_share)},
               {Bar(v.window.gpu_share, kBarColumns), Style::kAccent},
               {FormatPercent(v.window.wait_share)},
               {fmt::format("{}", v.totals.late_frames)},
               {ProgramsText(v), Style::kFaint}});
  if (snapshot.vgpus.empty()) return out + "no vGPUs; run a program with 'weir run -- PROGRAM'\n";
  return out + table.Render(color);
}

}  // namespace weir::cli
