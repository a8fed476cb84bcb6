// SPDX-License-Identifier: Apache-2.0
// weir nodes, weir cluster status, weir explain: queries to a cluster's manager (docs/cluster.md).
#include <fmt/format.h>

#include <memory>

#include "cli/common/control_client.h"
#include "cli/common/table.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/manager_client.h"
#include "cli/options.h"
#include "http/client.h"

namespace weir::cli {
namespace {

using nlohmann::json;

std::string WordOf(const json& object, const char* field) {
  const auto at = object.find(field);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}
std::uint64_t CountOf(const json& object, const char* field) {
  const auto at = object.find(field);
  return at != object.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}
double FigureOf(const json& object, const char* field) {
  const auto at = object.find(field);
  return at != object.end() && at->is_number() ? at->get<double>() : 0;
}
json ItemsOf(const json& object, const char* field) {
  const auto at = object.find(field);
  return at != object.end() && at->is_array() ? *at : json::array();
}

Style StyleOfNode(const std::string& state) {
  if (state == "up") return Style::kGood;
  return state == "suspect" ? Style::kWarning : Style::kFaint;
}

Result<int> ShowNodes(const Session& session, const ManagerFlags& flags) {
  WEIR_TRY(const ManagerClient client, ManagerClient::Make(flags));
  WEIR_TRY(const json nodes, client.Get("/v1/nodes"));
  if (session.json) return PrintJson(nodes), 0;
  WEIR_TRY(const json devices, client.Get("/v1/devices"));
  Table table({{"NODE"},
               {"STATE"},
               {"HEARD", Table::Align::kRight},
               {"DEVICE"},
               {"MEMORY", Table::Align::kRight},
               {"RUNS", Table::Align::kRight},
               {"AT ONCE", Table::Align::kRight},
               {"OFFERS PARTS"},
               {"ROOM", Table::Align::kRight},
               {"THREADS", Table::Align::kRight}});
  for (const json& node : ItemsOf(nodes, "nodes")) {
    const std::string state = WordOf(node, "state");
    std::vector<Cell> row{{WordOf(node, "name"), Style::kStrong},
                          {state, StyleOfNode(state)},
                          {fmt::format("{:.1f} s ago", FigureOf(node, "silent_s"))}};
    const json offer = node.value("parts", json::object());
    const std::vector<Cell> parts = offer.empty()
                                        ? std::vector<Cell>{{""}, {""}, {""}}
                                        : std::vector<Cell>{{WordOf(offer, "vgpu")},
                                                            {fmt::format("{} MiB", CountOf(offer, "room_bytes") >> 20)},
                                                            {std::to_string(CountOf(offer, "threads"))}};
    bool some = false;
    for (const json& device : ItemsOf(devices, "devices")) {
      if (WordOf(device, "node") != WordOf(node, "name")) continue;
      row.resize(3);
      row.insert(row.end(), {{WordOf(device, "name")},
                             {fmt::format("{} MiB", CountOf(device, "memory_bytes") >> 20)},
                             {std::to_string(CountOf(device, "running"))},
                             {std::to_string(CountOf(device, "concurrent_max"))}});
      for (std::size_t i = 0; i < parts.size(); ++i) row.push_back(some ? Cell{""} : parts[i]);
      table.Add(row);
      row = {{""}, {""}, {""}};
      some = true;
    }
    if (some) continue;
    row.insert(row.end(), {{"none", Style::kFaint}, {""}, {""}, {""}});
    row.insert(row.end(), parts.begin(), parts.end());
    table.Add(row);
  }
  fmt::print("{}", table.empty() ? "no nodes yet: 'weir serve --manager' on each\n" : table.Render(StdoutTakesColor()));
  return 0;
}

Result<int> ShowCluster(const Session& session, const ManagerFlags& flags) {
  WEIR_TRY(const ManagerClient client, ManagerClient::Make(flags));
  json managers = json::array();
  const json* leader = nullptr;
  Error last = Fail(Errc::kUnavailable, "no manager leads now; try again in a few seconds");
  bool some = false;
  for (const auto& [address, answer] : client.GetOfEach("/v1/cluster")) {
    some |= answer.has_value();
    if (!answer) last = answer.error();
    managers.push_back(answer ? *answer : json{{"self", address}, {"error", answer.error().message}});
  }
  if (!some) return last;
  for (const json& manager : managers)
    if (manager.value("leads", false)) leader = &manager;
  if (session.json) return PrintJson({{"managers", managers}}), 0;
  for (const json& manager : managers) {
    std::string what = "leads";
    if (manager.contains("error"))
      what = WordOf(manager, "error");
    else if (!manager.value("leads", false))
      what = WordOf(manager, "leader").empty() ? WordOf(manager, "why") : "follows " + WordOf(manager, "leader");
    fmt::print("{}  {}\n", Printable(WordOf(manager, "self")), Printable(what));
  }
  if (leader == nullptr) return Fail(Errc::kUnavailable, "no manager leads now; try again in a few seconds");
  const json runs = leader->value("runs", json::object());
  fmt::print("{} nodes with {} devices, {} modules, placement {}\n", CountOf(*leader, "nodes"),
             CountOf(*leader, "devices"), CountOf(*leader, "modules"), Printable(WordOf(*leader, "placement")));
  fmt::print("runs: {} waiting, {} running, {} done, {} failed; {} moved, {} nodes lost\n", CountOf(runs, "waiting"),
             CountOf(runs, "running"), CountOf(runs, "done"), CountOf(runs, "failed"), CountOf(*leader, "moved_total"),
             CountOf(*leader, "nodes_lost_total"));
  return 0;
}

Result<int> ExplainRun(const Session& session, const ManagerFlags& flags, const std::string& id) {
  WEIR_TRY(const ManagerClient client, ManagerClient::Make(flags));
  WEIR_TRY(const json reply, client.Get("/v1/runs/" + http::PercentEncode(id) + "/explain"));
  if (session.json) return PrintJson(reply), 0;
  const json run = reply.value("run", json::object());
  fmt::print("run {}: {}", Printable(id), Printable(WordOf(run, "state")));
  if (!WordOf(run, "node").empty())
    fmt::print(", attempt {} on {} of {}", CountOf(run, "attempt"), Printable(WordOf(run, "device")),
               Printable(WordOf(run, "node")));
  fmt::print("\nwhere it could go now, by {}, the best first:\n", Printable(WordOf(reply, "placement")));
  Table table({{"NODE"}, {"DEVICE"}, {"ALIKE", Table::Align::kRight}, {"PREDICTION"}});
  for (const json& candidate : ItemsOf(reply, "candidates"))
    table.Add({{WordOf(candidate, "node"), Style::kStrong},
               {WordOf(candidate, "device")},
               {std::to_string(CountOf(candidate, "alike"))},
               {WordOf(candidate, "reason"), candidate.value("room", false) ? Style::kPlain : Style::kFaint}});
  fmt::print("{}", table.empty() ? "  there are no devices\n" : table.Render(StdoutTakesColor()));
  return 0;
}

}  // namespace

void AddCluster(Command app, Session& session) {
  auto flags = std::make_shared<ManagerFlags>();
  const Command nodes = AddCommand(app, "nodes", "Nodes of a cluster, and their devices",
                                   "  weir nodes\n"
                                   "  weir nodes --manager m1:7710,m2:7710 --token cluster.token\n",
                                   session);
  AddManagerOptions(nodes, *flags);
  nodes.WhenGiven([flags, &session] { session.action = [flags, &session] { return ShowNodes(session, *flags); }; });

  const Command cluster = AddCommandGroup(app, "cluster", "Show a cluster's managers, nodes and runs",
                                          "  weir cluster status --manager m1:7710,m2:7710\n");
  const Command status =
      AddCommand(cluster, "status", "Show the leading manager, and how many runs wait, run and are done",
                 "  weir cluster status\n"
                 "  weir cluster status --manager m1:7710,m2:7710 --json\n",
                 session);
  AddManagerOptions(status, *flags);
  status.WhenGiven([flags, &session] { session.action = [flags, &session] { return ShowCluster(session, *flags); }; });

  auto id = std::make_shared<std::string>();
  const Command explain =
      AddCommand(app, "explain", "Show why a run was placed on its device, with the prediction for each device",
                 "  weir explain run-42\n"
                 "  weir explain run-42 --manager m1:7710,m2:7710 --json\n",
                 session);
  explain.Add("run", "RUN", *id, "The run's ID").Required();
  AddManagerOptions(explain, *flags);
  explain.WhenGiven(
      [flags, id, &session] { session.action = [flags, id, &session] { return ExplainRun(session, *flags, *id); }; });
}

}  // namespace weir::cli
