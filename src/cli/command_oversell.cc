// SPDX-License-Identifier: Apache-2.0
// weir oversell: the sale of a device (docs/oversubscription.md).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "cli/common/snapshot.h"
#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "cli/oversell_view.h"
#include "tools/sim/selling_plan.h"

namespace weir::cli {
namespace {

using nlohmann::json;

struct OversellFlags {
  std::string word, device;
  std::vector<NamedValue> params;
  std::optional<double> ratio;
  bool list_params = false;
};

/// The modes on the command line and their names in the API.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kModes{
    {{"on", "adaptive"}, {"off", "off"}, {"strict", "strict"}, {"static", "static"}, {"adaptive", "adaptive"}}};

Result<std::string> ModeTyped(const std::string& word) {
  for (const auto& [typed, mode] : kModes)
    if (typed == word) return std::string(mode);
  return Fail(
      Errc::kInvalidArgument,
      fmt::format("no way of selling named '{}'; known: on (adaptive), off, strict, static; 'status' shows which "
                  "is in force",
                  word));
}

Result<Snapshot> Chosen(const ControlClient& client, const std::string& device) {
  WEIR_TRY(Snapshot node, TakeSnapshot(client));
  if (device.empty()) return node;
  std::string names;
  for (const DeviceView& d : node.devices) names += (names.empty() ? "" : ", ") + d.name;
  std::erase_if(node.devices, [&](const DeviceView& d) { return d.name != device; });
  if (node.devices.empty())
    return Fail(Errc::kNotFound, fmt::format("no device named '{}'; existing: {}", device, names));
  return node;
}

Result<int> ShowStatus(const Session& session, const OversellFlags& flags) {
  if (session.json) {
    WEIR_TRY(const json devices, session.client().Get("/v1/devices"));
    WEIR_TRY(const json vgpus, session.client().Get("/v1/vgpus"));
    json out{{"devices", json::array()}, {"vgpus", json::array()}};
    for (const json& device : devices.value("devices", json::array()))
      if (flags.device.empty() || TextField(device, "name") == flags.device) out["devices"].push_back(device);
    for (const json& vgpu : vgpus.value("vgpus", json::array()))
      if (flags.device.empty() || TextField(vgpu, "device") == flags.device) out["vgpus"].push_back(vgpu);
    return PrintJson(out), 0;
  }
  WEIR_TRY(const Snapshot node, Chosen(session.client(), flags.device));
  for (const DeviceView& device : node.devices)
    fmt::print("{}{}", &device == node.devices.data() ? "" : "\n",
               OversellText(device, node.vgpus, StdoutTakesColor()));
  return 0;
}

Result<int> ShowParams(const Session& session, const OversellFlags& flags) {
  WEIR_TRY(const json reply, session.client().Get("/v1/oversell/params"));
  if (session.json) return PrintJson(reply), 0;
  WEIR_TRY(const Snapshot node, Chosen(session.client(), flags.device));
  fmt::print("{}", OversellParamsText(ParamsFromJson(reply), node.devices, StdoutTakesColor()));
  return 0;
}

Result<int> Sell(const Session& session, const OversellFlags& flags) {
  WEIR_TRY(const std::string mode, ModeTyped(flags.word));
  json body{{"mode", mode}, {"params", json::object()}};
  WEIR_TRY(const core::PolicyParams params, OversellParamsOf(flags.params));
  for (const auto& [key, value] : params) body["params"][key] = JsonNumber(value);
  if (flags.ratio) body["params"]["ratio"] = JsonNumber(*flags.ratio);
  WEIR_TRY(const std::string device, DeviceMeant(session.client(), flags.device));
  WEIR_TRY(const json reply, session.client().Put("/v1/devices/" + PercentEncode(device) + "/oversell", body));
  if (session.json) return PrintJson(reply), 0;
  WEIR_TRY(const DeviceView set, DeviceFromJson(reply));
  fmt::print("{}: selling is {}; can be sold now: {}\n", Printable(set.name), Printable(set.oversell.mode),
             Printable(OfferText(set)));
  return 0;
}

}  // namespace

void AddOversell(Command app, Session& session) {
  auto flags = std::make_shared<OversellFlags>();
  const Command command =
      AddCommand(app, "oversell", "Sell the unused parts of ceilings, and return them when they are needed",
                 "  weir oversell                              # how devices are sold, and what can be sold now\n"
                 "  weir oversell on                           # more while it is calm; caps follow the need\n"
                 "  weir oversell on --param low_line=0.5\n"
                 "  weir oversell strict                       # nothing is sold twice\n"
                 "  weir oversell static --ratio 1.5           # half as much again; each has its part\n"
                 "  weir oversell off                          # caps are as set, whatever their sum\n"
                 "  weir oversell --params                     # parameters: values, defaults, ranges\n",
                 session);
  command.Add("mode", "on|off|strict|static|status", flags->word, "How the device is to be sold; status shows it");
  command.Add("--device", "NAME", flags->device, "The device (default: the only one; status: all)");
  command.AddParsed("--ratio", "R", flags->ratio, ParseNumber, "static: ceilings together, in devices (default 2)");
  command.AddEachParsed("--param", "NAME=VALUE", flags->params, ParseNamedValue,
                        "A parameter; may be repeated. The others get their defaults");
  command.AddFlag("--params", flags->list_params, "List the parameters");
  command.WhenGiven([flags, &session] {
    const bool shows = flags->word.empty() || flags->word == "status";
    if ((shows || flags->list_params) && !flags->params.empty())
      RejectUsage("oversell: --param needs a way of selling: on, strict or static");
    if (flags->ratio && flags->word != "static") RejectUsage("oversell: --ratio is of static");
    if (flags->list_params && !shows) RejectUsage("oversell: --params lists them and changes nothing");
    session.action = [flags, shows, &session] {
      return flags->list_params ? ShowParams(session, *flags)
             : shows            ? ShowStatus(session, *flags)
                                : Sell(session, *flags);
    };
  });
}

}  // namespace weir::cli
