// SPDX-License-Identifier: Apache-2.0
// Commands about the node: status, devices, policy, stop, version.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/common/places.h"
#include "cli/common/snapshot.h"
#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/common/version.h"
#include "cli/common/views.h"
#include "cli/left_running.h"
#include "cli/options.h"
#include "core/schedule/policy_table.h"
#include "device/opencl_devices.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "tools/doctor/debug_report.h"

namespace weir::cli {
namespace {

using nlohmann::json;

Result<int> ShowStatus(const Session& session) {
  WEIR_TRY(const json status, session.client().Get("/v1/status"));
  if (session.json) return PrintJson(status), 0;
  const std::string lines[][2] = {
      {"version", TextField(status, "version")},
      {"process",
       fmt::format("{}{}", WholeField(status, "pid"), status.value("private", json()) == true ? " (private)" : "")},
      {"up", FormatDuration(nanoseconds(WholeField(status, "uptime_ns")))},
      {"socket", session.places().socket},
      {"run folder", TextField(status, "run_dir")},
      {"state folder", TextField(status, "state_dir")},
      {"devices", fmt::format("{}", WholeField(status, "devices"))},
      {"vGPUs", fmt::format("{}", WholeField(status, "vgpus"))},
      {"processes", fmt::format("{}", WholeField(status, "processes"))},
  };
  for (const auto& [name, value] : lines) fmt::print("{:<14}{}\n", name, Printable(value));
  if (const auto isolation = status.find("isolation"); isolation != status.end() && isolation->is_object()) {
    const json missing = isolation->value("missing", json::array());
    if (missing.empty()) fmt::print("{:<14}{}\n", "isolation", "the executor of each vGPU has a user of its own");
    for (const json& part : missing)
      if (part.is_string()) fmt::print("{:<14}{}\n", "not isolated", Printable(part.get<std::string>()));
  }
  if (const std::string why = TextField(status, "not_saved"); !why.empty())
    fmt::print("{:<14}{}\n", "not saved", Printable(why));
  for (const json& device : status.value("without_account", json::array()))
    if (device.is_string())
      fmt::print("{:<14}{}: its driver's account does not arrive, so that use is charged as programs report it\n",
                 "no account", Printable(device.get<std::string>()));
  const json not_restored = status.value("not_restored", json::array());
  for (const json& item : not_restored)
    fmt::print("{:<14}{}: {}\n", "not restored", Printable(TextField(item, "what")), Printable(TextField(item, "why")));
  if (!not_restored.empty())
    fmt::print(
        "{:<14}it stays saved for a later start; 'weir vgpu rm NAME' and 'weir devices --forget DEVICE' remove it\n",
        "");
  if (const auto helpers = status.find("helpers"); helpers != status.end() && helpers->is_array())
    for (const json& helper : *helpers)
      if (const std::string problem = TextField(helper, "problem"); !problem.empty())
        fmt::print("{:<14}{}: {}\n", "does not run", Printable(TextField(helper, "name")), Printable(problem));
  return 0;
}

Result<int> ShowDevices(const Session& session) {
  WEIR_TRY(json reply, session.client().Get("/v1/devices"));
  WEIR_TRY(const auto self, SelfExecutable());
  const auto opencl = device::ListOpenClDevices(FindHelper(self, kExecutor));
  if (session.json) {
    json& list = reply["opencl_devices"] = json::array();
    if (opencl)
      for (const device::OpenClDevice& d : *opencl)
        list.push_back({{"library", d.library},
                        {"number", d.number},
                        {"uuid", d.uuid},
                        {"pci", d.pci},
                        {"vendor", d.vendor},
                        {"name", d.name},
                        {"compute_units", d.compute_units},
                        {"memory_bytes", d.memory_bytes}});
    return PrintJson(reply), 0;
  }
  WEIR_TRY(const auto devices, DevicesFromJson(reply));
  Table table({{"DEVICE"},
               {"KIND"},
               {"MODEL"},
               {"PCI"},
               {"CPUS"},
               {"POLICY"},
               {"VGPUS", Table::Align::kRight},
               {"GPU USE", Table::Align::kRight}});
  for (const DeviceView& d : devices)
    table.Add({{d.name, Style::kStrong},
               {d.kind},
               {d.model.empty() ? "-" : Printable(d.model)},
               {d.pci.empty() ? "-" : Printable(d.pci)},
               {d.cpus.empty() ? "-" : d.cpus},
               {d.policy},
               {fmt::format("{}", d.vgpus)},
               {FormatPercent(d.gpu_use)}});
  fmt::print("{}", table.Render(StdoutTakesColor()));
  if (!opencl) {
    fmt::print("\nOpenCL: {}\n", Printable(opencl.error().message));
    return 0;
  }
  Table drivers({{"OPENCL DEVICE"}, {"DRIVER"}, {"UNITS", Table::Align::kRight}, {"MEMORY", Table::Align::kRight}});
  for (const device::OpenClDevice& d : *opencl)
    drivers.Add({{d.name, Style::kStrong},
                 {fmt::format("{} {}", d.library, d.number)},
                 {fmt::format("{}", d.compute_units)},
                 {FormatBytes(Bytes{d.memory_bytes})}});
  fmt::print("\n{}", drivers.Render(StdoutTakesColor()));
  return 0;
}

/// The value of --forget. An empty name, for example from a script's unset variable, would otherwise ask for nothing.
Result<std::string> ParseDeviceToForget(const std::string& text) {
  if (!text.empty()) return text;
  return Fail(Errc::kInvalidArgument, "the name is empty; 'weir status' lists what is not restored, with its device");
}

Result<int> ForgetDevice(const Session& session, const std::string& device) {
  WEIR_TRY(const json reply, session.client().Delete("/v1/devices/" + PercentEncode(device) + "/not_restored"));
  if (session.json) return PrintJson(reply), 0;
  for (const json& what : reply.value("forgotten", json::array()))
    if (what.is_string()) fmt::print("forgotten: {}\n", Printable(what.get<std::string>()));
  return 0;
}

Result<int> ShowPolicies(const Session& session) {
  WEIR_TRY(const json device_reply, session.client().Get("/v1/devices"));
  WEIR_TRY(const json policy_reply, session.client().Get("/v1/policies"));
  if (session.json) {
    PrintJson({{"devices", device_reply.value("devices", json::array())},
               {"policies", policy_reply.value("policies", json::array())}});
    return 0;
  }
  WEIR_TRY(const auto devices, DevicesFromJson(device_reply));
  WEIR_TRY(const auto policies, PoliciesFromJson(policy_reply));
  Table current({{"DEVICE"}, {"POLICY"}, {"PARAMETERS"}});
  for (const DeviceView& d : devices) current.Add({{d.name}, {d.policy, Style::kStrong}, {d.policy_params}});
  Table known({{"POLICY"}, {"RATES"}, {"WHAT IT DOES"}, {"PARAMETER"}, {"DEFAULT", Table::Align::kRight}, {"RANGE"}});
  for (const PolicyView& policy : policies) {
    known.Add(
        {{policy.name, Style::kStrong}, {policy.keeps_rates ? "kept" : "ignored"}, {policy.summary}, {""}, {""}, {""}});
    for (const ParamView& p : policy.params)
      known.Add({{""}, {""}, {"  " + p.summary}, {p.name}, {DefaultText(p)}, {RangeText(p)}});
  }
  const bool color = StdoutTakesColor();
  fmt::print("{}\n{}", current.Render(color), known.Render(color));
  return 0;
}

Result<int> SetPolicy(const Session& session, const std::string& name, const std::string& device_flag,
                      const std::vector<NamedValue>& params) {
  WEIR_TRY(const std::string device, DeviceMeant(session.client(), device_flag));
  json body{{"policy", name}, {"params", json::object()}};
  for (const auto& [key, value] : params) {
    json& field = body["params"][key];
    if (const double* number = std::get_if<double>(&value))
      field = JsonNumber(*number);
    else
      field = std::get<std::string>(value);
  }
  WEIR_TRY(const json reply, session.client().Put("/v1/devices/" + PercentEncode(device) + "/policy", body));
  WEIR_TRY(const DeviceView set, DeviceFromJson(reply));
  Warn(set.warnings);
  if (session.json) return PrintJson(reply), 0;
  fmt::print("{}: {}{}{}\n", Printable(set.name), set.policy, set.policy_params.empty() ? "" : ", ", set.policy_params);
  return 0;
}

/// Pidfds of the programs that the daemon keeps running.
std::vector<platform::Fd> HelpersOf(const json& status) {
  std::vector<platform::Fd> helpers;
  for (const json& helper : status.value("helpers", json::array()))
    if (auto opened = platform::OpenPidFd(static_cast<pid_t>(WholeField(helper, "pid"))); opened)
      helpers.push_back(std::move(*opened));
  return helpers;
}

/// Waits for the end of these processes, at most until `deadline`.
void AwaitEnd(const std::vector<platform::Fd>& processes, Instant deadline) {
  for (const platform::Fd& process : processes) {
    pollfd entry{process.get(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(MillisecondsOf(std::max(deadline - platform::Now(), Duration(0)))));
  }
}

/// Asks the daemon to end, and waits until its socket no longer answers. Programs of other machines are clients of the
/// portals, which end with the daemon; they do not count among those that continue.
Result<int> Stop(const Session& session) {
  const ControlClient client = session.client();
  WEIR_TRY(const json status, client.Get("/v1/status"));
  const std::vector<platform::Fd> helpers = HelpersOf(status);
  WEIR_TRY(const Snapshot before, TakeSnapshot(client));
  const AttachedProcesses attached(before.vgpus);
  WEIR_TRY(const json reply, client.Post("/v1/shutdown"));
  constexpr int kTries = 200;
  for (int i = 0; i < kTries; ++i) {
    const auto answer = client.Get("/v1/status");
    if (!answer && answer.error().code == Errc::kUnavailable) {
      AwaitEnd(helpers, platform::Now() + seconds(2));
      const std::size_t left = attached.CountLeft();
      if (session.json)
        PrintJson(reply);
      else if (left == 0)
        fmt::print("stopped\n");
      else
        fmt::print("stopped; {} process{} of vGPUs continue{} unthrottled\n", left, left == 1 ? "" : "es",
                   left == 1 ? "s" : "");
      return 0;
    }
    poll(nullptr, 0, 25);
  }
  return Fail(Errc::kTimeout, fmt::format("asked the daemon at {} to stop, but it still answers after 5 s; see its log",
                                          client.socket_path()));
}

}  // namespace

void AddStatus(Command app, Session& session) {
  const Command command = AddCommand(app, "status", "Show whether a daemon runs, and its socket",
                                     "  weir status\n  weir status --json | jq .vgpus\n"
                                     "  weir status --debug > weir-debug.json    # for a bug report\n",
                                     session);
  const auto debug = std::make_shared<bool>(false);
  command.AddFlag("--debug", *debug,
                  "Print all that helps to find a fault, as JSON: the host, the run folder's listing, the daemon's "
                  "devices, vGPUs and events. It contains no token or key");
  command.WhenGiven([&session, debug] {
    session.action = [&session, debug]() -> Result<int> {
      if (!*debug) return ShowStatus(session);
      fmt::print("{}\n", DebugReport(session.places(), session.client())
                             .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      return 0;
    };
  });
}

void AddDevices(Command app, Session& session) {
  const Command command =
      AddCommand(app, "devices", "List the node's devices, and those that this machine's OpenCL drivers offer",
                 "  weir devices\n  weir devices --json\n"
                 "  weir devices --forget gpu1    # it is gone for good: its settings are no longer kept\n",
                 session);
  const auto forget = std::make_shared<std::string>();
  command.AddParsed("--forget", "DEVICE", *forget, ParseDeviceToForget,
                    "Remove the saved policy, selling and memory of a device that 'weir status' lists as not restored. "
                    "'weir vgpu rm' removes its vGPUs");
  command.WhenGiven([&session, forget] {
    session.action = [&session, forget] {
      return forget->empty() ? ShowDevices(session) : ForgetDevice(session, *forget);
    };
  });
}

void AddPolicy(Command app, Session& session) {
  struct Flags {
    std::string name, device;
    std::vector<NamedValue> params;
  };
  auto flags = std::make_shared<Flags>();
  const Command command =
      AddCommand(app, "policy", "Show or change how a device is shared; running programs feel it at once",
                 "  weir policy                                # the present policy, and all policies\n"
                 "  weir policy proportional-share\n"
                 "  weir policy reserve --param period_ms=1\n"
                 "  weir policy sla-aware --param fps=60 --param sync=finish\n",
                 session);
  command.Add("name", "NAME", flags->name, "The policy to change to").OneOf(NamesIn(core::PolicyTable()));
  command.Add("--device", "NAME", flags->device, "The device (default: the only one)");
  command.AddEachParsed("--param", "NAME=VALUE", flags->params, ParseNamedValue,
                        "A parameter of the policy; may be repeated");
  command.WhenGiven([flags, &session] {
    if (flags->name.empty() && (!flags->params.empty() || !flags->device.empty()))
      RejectUsage("policy: --param and --device need the name of a policy");
    session.action = [flags, &session] {
      return flags->name.empty() ? ShowPolicies(session)
                                 : SetPolicy(session, flags->name, flags->device, flags->params);
    };
  });
}

void AddStop(Command app, Session& session) {
  const Command command =
      AddCommand(app, "stop", "End the daemon; programs continue unthrottled", "  weir stop\n", session);
  command.WhenGiven([&session] { session.action = [&session] { return Stop(session); }; });
}

void AddVersion(Command app, Session& session) {
  const Command command = AddCommand(app, "version", "Print the version", "", session);
  command.WhenGiven([&session] {
    session.action = [&session]() -> Result<int> {
      if (session.json)
        PrintJson({{"version", kVersion}});
      else
        fmt::print("weir {}\n", kVersion);
      return 0;
    };
  });
}

}  // namespace weir::cli
