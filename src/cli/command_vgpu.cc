// SPDX-License-Identifier: Apache-2.0
// weir vgpu create | set | list | show | env | rm | pause | resume
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>

#include "cli/common/places.h"
#include "cli/common/snapshot.h"
#include "cli/common/table.h"
#include "cli/common/tenant.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/common/views.h"
#include "cli/options.h"

namespace weir::cli {
namespace {

using nlohmann::json;

bool IsSold(const std::vector<DeviceView>& devices, const VgpuView& vgpu) {
  return std::ranges::any_of(
      devices, [&](const DeviceView& device) { return device.name == vgpu.device && device.oversell.on(); });
}

/// The table of vGPUs, with two more columns if a device is oversold.
Table ListTable(const Snapshot& node) {
  constexpr auto kRight = Table::Align::kRight;
  const bool sold = std::ranges::any_of(node.devices, [](const DeviceView& device) { return device.oversell.on(); });
  std::vector<Table::Column> columns{{"VGPU"}, {"DEVICE"}, {"STATE"}, {"WEIGHT", kRight}, {"CAP", kRight}};
  if (sold) columns.insert(columns.end(), {{"CAP NOW", kRight}, {"SOLD AS"}});
  columns.insert(
      columns.end(),
      {{"PROMISE"}, {"MEMORY"}, {"PROCS", kRight}, {"FPS", kRight}, {"OF DEVICE", kRight}, {"OF USED", kRight}});
  Table table(std::move(columns));
  for (const VgpuView& v : node.vgpus) {
    std::vector<Cell> row{{v.name, Style::kStrong},
                          {v.device},
                          {v.state},
                          {fmt::format("{}", v.settings.weight)},
                          {FormatPercent(v.settings.cap.Fraction())}};
    if (sold) {
      const bool this_one = IsSold(node.devices, v);
      row.insert(row.end(), {{this_one ? FormatPercent(v.cap_now) : "-"}, {this_one ? v.sale : "-"}});
    }
    row.insert(row.end(), {{PromiseText(v)},
                           {MemoryText(v)},
                           {fmt::format("{}", v.processes.size())},
                           {fmt::format("{:.1f}", v.window.fps)},
                           {FormatPercent(v.window.gpu_use)},
                           {FormatPercent(v.window.gpu_share)}});
    table.Add(std::move(row));
  }
  return table;
}

Result<int> ListVgpus(const Session& session) {
  if (session.json) {
    WEIR_TRY(const json reply, session.client().Get("/v1/vgpus"));
    return PrintJson(reply), 0;
  }
  WEIR_TRY(const Snapshot node, TakeSnapshot(session.client()));
  if (node.vgpus.empty()) {
    fmt::print("no vGPUs; make one with 'weir vgpu create NAME', or run a program with 'weir run -- PROGRAM'\n");
    return 0;
  }
  fmt::print("{}", ListTable(node).Render(StdoutTakesColor()));
  return 0;
}

/// "50 %", or with the sale: "50 % (sold as oversold, now 33 %)", or with the cap that its promise implies.
std::string CapText(const VgpuView& v, bool sold) {
  const std::string cap = FormatPercent(v.settings.cap.Fraction());
  if (sold) return fmt::format("{} (sold as {}, now {})", cap, v.sale, FormatPercent(v.cap_now));
  const bool implied = v.cap_now > 0 && v.cap_now < v.settings.cap.Fraction();
  return implied ? fmt::format("{} (now {}, which its promise implies)", cap, FormatPercent(v.cap_now)) : cap;
}

/// "auto; launches: 2 in 7 parts (120M copied), 1 not cut".
std::string PartsText(const VgpuView& v) {
  const proto::ExecutorStatistics& m = v.memory.stats;
  std::string text(core::NameOf(v.settings.partition));
  if (m.launches_in_parts == 0 && m.launches_not_cut == 0) return text;
  return text + fmt::format("; launches: {} in {} parts ({} copied), {} not cut", m.launches_in_parts, m.parts,
                            FormatBytes(Bytes{m.parts_in.count + m.parts_out.count}), m.launches_not_cut);
}

void PrintVgpu(const VgpuView& v, bool sold) {
  auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<14}{}\n", name, value.empty() ? "-" : Printable(value));
  };
  line("vGPU", v.name + (v.ephemeral ? " (ends with its program)" : ""));
  line("device", v.device);
  line("state", v.state);
  line("weight", fmt::format("{}", v.settings.weight));
  line("cap", CapText(v, sold));
  line("promise", v.promise.empty() ? PromiseText(v) : v.promise);
  for (const std::string& warning : v.warnings) line("warning", warning);
  const auto& m = v.memory;
  const std::string limit = MemoryText(v);
  const std::string programs =
      m.program_bytes == 0 ? "" : fmt::format("; programs hold {} themselves", FormatBytes(Bytes{m.program_bytes}));
  line("memory", (!m.elastic ? fmt::format("{}; OpenCL objects have {}", limit.empty() ? "no limit" : "limit " + limit,
                                           FormatBytes(Bytes{m.objects_bytes}))
                             : fmt::format("{} to {} slots of 64M; holds {}, {} its own now{}; made {}, copied {}",
                                           m.min_slots, m.max_slots, m.held_slots, m.here_slots,
                                           m.waits ? ", waits" : "", FormatBytes(m.stats.made),
                                           FormatBytes(Bytes{m.stats.copied_out.count + m.stats.copied_in.count}))) +
                     programs);
  line("parts", PartsText(v));
  line("attach", v.attach);
  line("frames", fmt::format("{}, late {}, of these {} because they waited for others", v.totals.frames,
                             v.totals.late_frames, v.totals.broken_frames));
  line("GPU time", fmt::format("{:.3f} s", SecondsOf(nanoseconds(v.totals.gpu_ns))));
  line("waited", fmt::format("{:.3f} s", SecondsOf(nanoseconds(v.totals.wait_ns))));
  line("now",
       fmt::format("{:.1f} {}, frame {:.2f} ms mean, {:.2f} ms p99, {} of the device, {} of what is used, waiting {}",
                   v.window.fps, RateUnit(v), v.window.frame_ms_mean, v.window.frame_ms_p99,
                   FormatPercent(v.window.gpu_use), FormatPercent(v.window.gpu_share),
                   FormatPercent(v.window.wait_share)));
  if (v.totals.records_lost > 0 || v.totals.fail_opens > 0)
    line("trouble",
         fmt::format("{} records lost, went on unthrottled {} times", v.totals.records_lost, v.totals.fail_opens));
  if (v.processes.empty()) return;
  Table table(
      {{"PID", Table::Align::kRight}, {"PROGRAM"}, {"API"}, {"METER"}, {"MEMORY", Table::Align::kRight}, {"RENDERER"}});
  for (const ProcessView& p : v.processes) {
    const std::string memory = p.memory_bytes == 0 ? "-" : FormatBytes(Bytes{p.memory_bytes});
    table.Add({{fmt::format("{}", p.pid)}, {p.program}, {ApiText(p)}, {p.meter}, {memory}, {p.renderer}});
  }
  fmt::print("\n{}", table.Render(StdoutTakesColor()));
}

/// Prints the vGPU in the reply, or one line about it. `done`: null to show all. Warnings go to stderr, unless all is
/// shown.
Result<int> Report(const Session& session, Result<json> reply, const char* done) {
  WEIR_TRY(const json vgpu, std::move(reply));
  WEIR_TRY(const VgpuView view, VgpuFromJson(vgpu));
  if (done != nullptr) Warn(view.warnings);
  if (session.json) return PrintJson(vgpu), 0;
  WEIR_TRY(const json devices_reply, session.client().Get("/v1/devices"));
  WEIR_TRY(const auto devices, DevicesFromJson(devices_reply));
  const bool sold = IsSold(devices, view);
  if (done == nullptr) return PrintVgpu(view, sold), 0;
  const std::string promise = PromiseText(view);
  const std::string memory = MemoryText(view);
  fmt::print("{} {}: weight {}, cap {}{}{}{}{}\n", done, Printable(view.name), view.settings.weight,
             CapText(view, sold), promise.empty() ? "" : ", promise ", promise, memory.empty() ? "" : ", memory ",
             memory);
  if (!view.promise.empty()) fmt::print("promise: {}\n", Printable(view.promise));
  return 0;
}

struct VgpuFlags {
  std::string name;
  GivenSettings settings;
  std::int64_t owner = -1;  // negative: not given
  bool force = false;
};
using Work = std::function<Result<int>(const VgpuFlags&)>;

/// A subcommand whose first argument names a vGPU.
Command AddNamed(Command vgpu, Session& session, const char* name, const char* summary, const char* examples,
                 const Work& work, std::shared_ptr<VgpuFlags>& flags) {
  flags = std::make_shared<VgpuFlags>();
  const Command command = AddCommand(vgpu, name, summary, examples, session);
  command.Add("name", "NAME", flags->name, "The vGPU's name").Required();
  command.WhenGiven([flags, work, &session] { session.action = [flags, work] { return work(*flags); }; });
  return command;
}

void AddCreateAndSet(Command vgpu, Session& session) {
  std::shared_ptr<VgpuFlags> flags;
  const Command create = AddNamed(
      vgpu, session, "create", "Make a vGPU",
      "  weir vgpu create game --weight 50 --fps 60\n  weir vgpu create batch --cap 20% --memory 512M:2G\n"
      "  weir vgpu create nightly --best-effort    # uses only idle GPU time\n"
      "  weir vgpu create small --memory 1G --partition never    # launches never run in parts\n",
      [&session](const VgpuFlags& f) {
        json body{{"name", f.name}};
        AddSettings(f.settings, body);
        if (f.owner >= 0) body["owner_uid"] = f.owner;
        return Report(session, session.client().Post("/v1/vgpus", body), "created");
      },
      flags);
  create.AddWhole("--owner", "UID", flags->owner, 0, std::numeric_limits<uid_t>::max() - std::int64_t{1},
                  "The user whose programs may use it (default: you; another only as root)");
  AddSettingOptions(create, flags->settings, /*creates=*/true);
  const Command set = AddNamed(
      vgpu, session, "set", "Change a vGPU's limits at once; an option that is left out keeps its value",
      "  weir vgpu set game --weight 80\n  weir vgpu set game --fps 0 --cap 0.5\n"
      "  weir vgpu set small --partition auto    # from its next executor on: when no OpenCL program has used it for "
      "10 s\n",
      [&session](const VgpuFlags& f) -> Result<int> {
        if (!f.settings.Any()) return Fail(Errc::kInvalidArgument, "nothing to set; give one of " + SettingFlags());
        json body = json::object();
        AddSettings(f.settings, body);
        return Report(session, session.client().Patch(VgpuTarget(f.name), body), "set");
      },
      flags);
  AddSettingOptions(set, flags->settings, /*creates=*/false);
}

void AddPauseAndResume(Command vgpu, Session& session) {
  std::shared_ptr<VgpuFlags> flags;
  AddNamed(
      vgpu, session, "pause", "Hold a vGPU's programs at their next frame", "  weir vgpu pause batch\n",
      [&session](const VgpuFlags& f) {
        return Report(session, session.client().Post(VgpuTarget(f.name) + "/pause"), "paused");
      },
      flags);
  AddNamed(
      vgpu, session, "resume", "Resume a paused vGPU", "  weir vgpu resume batch\n",
      [&session](const VgpuFlags& f) {
        return Report(session, session.client().Post(VgpuTarget(f.name) + "/resume"), "resumed");
      },
      flags);
}

Result<int> Remove(const Session& session, const VgpuFlags& flags) {
  WEIR_TRY(const json reply, session.client().Delete(VgpuTarget(flags.name) + (flags.force ? "?force=true" : "")));
  if (session.json) return PrintJson(reply), 0;
  fmt::print("removed {}{}\n", Printable(flags.name),
             reply.value("not_restored", json()) == true ? ", which could not be restored and was only saved" : "");
  return 0;
}

Result<int> PrintEnvironment(const Session& session, const VgpuFlags& flags) {
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  WEIR_TRY(const std::string library, FindPreloadLibrary(self));
  WEIR_TRY(const json reply, session.client().Get(VgpuTarget(flags.name)));
  WEIR_TRY(const VgpuView vgpu, VgpuFromJson(reply));
  WEIR_TRY(const auto environment, TenantEnvironment(vgpu, library));
  if (session.json) {
    json object = json::object();
    for (const auto& [name, value] : environment) object[name] = value;
    return PrintJson(object), 0;
  }
  for (const auto& [name, value] : environment) fmt::print("{}={}\n", name, value);
  return 0;
}

}  // namespace

void AddVgpu(Command app, Session& session) {
  const Command vgpu = AddCommandGroup(
      app, "vgpu", "Make, change, list and remove vGPUs",
      "  weir vgpu create game --weight 50 --fps 60\n  weir run --vgpu game -- glxgears\n  weir vgpu list\n");
  AddCreateAndSet(vgpu, session);
  const Command list = AddCommand(
      vgpu, "list", "List the vGPUs",
      "  weir vgpu list\n  weir vgpu list --json | jq -r '.vgpus[].name'\n"
      "\n"
      "COLUMNS\n"
      "  OF DEVICE is the part of the device's GPU time that the vGPU used in the last second; OF USED is its part of\n"
      "  what all vGPUs of the device used. A device that is partly idle has programs that ask for no more.\n",
      session);
  list.WhenGiven([&session] { session.action = [&session] { return ListVgpus(session); }; });
  std::shared_ptr<VgpuFlags> flags;
  AddNamed(
      vgpu, session, "show", "Show all about one vGPU", "  weir vgpu show game\n",
      [&session](const VgpuFlags& f) { return Report(session, session.client().Get(VgpuTarget(f.name)), nullptr); },
      flags);
  AddNamed(
      vgpu, session, "env", "Print the environment variables that make a program a tenant of a vGPU",
      "  env $(weir vgpu env game) ./game          # as 'weir run --vgpu game -- ./game' does, without looking at it "
      "first\n",
      [&session](const VgpuFlags& f) { return PrintEnvironment(session, f); }, flags);
  const Command remove = AddNamed(
      vgpu, session, "rm", "Remove a vGPU",
      "  weir vgpu rm game\n  weir vgpu rm game --force    # its programs continue unthrottled\n"
      "\n"
      "A vGPU that 'weir status' lists as not restored is removed in the same way: its saved settings and files go.\n",
      [&session](const VgpuFlags& f) { return Remove(session, f); }, flags);
  remove.AddFlag("--force", flags->force, "Even while programs are attached to it");
  AddPauseAndResume(vgpu, session);
}

}  // namespace weir::cli
