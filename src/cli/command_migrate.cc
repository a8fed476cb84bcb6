// SPDX-License-Identifier: Apache-2.0
// weir migrate: moves a running OpenCL program to another node's device.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/places.h"
#include "cli/common/text_units.h"
#include "cli/manager_client.h"
#include "cli/migration_targets.h"
#include "cli/options.h"
#include "platform/process.h"
#include "platform/unix_socket.h"
#include "proto/relay_control.h"

namespace weir::cli {
namespace {

constexpr int kAnswerMs = 300'000;  // time to copy contents, to build programs again, and for a running kernel to end

/// Whether the program of the relay's socket relay-PID.sock runs. A relay ends a moment after its program.
bool ProgramRuns(std::string_view name) {
  name.remove_prefix(std::string_view("relay-").size());
  pid_t pid = 0;
  if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) return false;
  const auto process = platform::OpenPidFd(pid);
  return process && !platform::WaitReadable(process->get(), 0);
}

/// The relay of a program that 'weir run --node' started; without a pid, the only one whose program runs.
Result<std::string> FindRelay(const std::string& run_dir, const std::string& pid) {
  if (!pid.empty()) return fmt::format("{}/relay-{}.sock", run_dir, pid);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("relay-") && name.ends_with(".sock") && ProgramRuns(name))
      found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Fail(Errc::kNotFound, "no program of 'weir run --node' runs here: " + run_dir +
                                     " has no relay's socket of a running program");
  return Fail(Errc::kInvalidArgument,
              fmt::format("{} programs of 'weir run --node' run here: give the process id of one", found.size()));
}

struct MigrateFlags {
  std::string pid;
  std::string to, token, vgpu;
  bool plain = false;
  Bytes room{};
  bool if_asked = false;
  std::string managers, manager_token;
};

/// Sends a request to the relay and returns its reply as text.
Result<std::string> AskRelay(const std::string& relay, const std::string& text) {
  auto socket = platform::ConnectSeqPacket(relay + proto::kControlSuffix);
  if (!socket) return Fail(Errc::kNotFound, fmt::format("no program of 'weir run --node' answers at {}", relay));
  WEIR_TRY_STATUS(platform::SendPacket(socket->get(), std::as_bytes(std::span(text))));
  if (!platform::WaitReadable(socket->get(), kAnswerMs))
    return Fail(Errc::kTimeout,
                "the relay has not answered within 5 minutes; it may still move the program, and a further 'weir "
                "migrate' waits for that");
  WEIR_TRY(const platform::Packet packet, platform::ReceivePacket(socket->get(), proto::kControlBytesMax));
  return proto::AnswerFrom({reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()});
}

/// An address gives one target. A name or "auto" gives the manager's suitable nodes, best first.
Result<std::vector<MigrationTarget>> TargetsFor(const MigrateFlags& flags, const std::string& relay) {
  if (flags.to.find(':') != std::string::npos) {
    MigrationTarget target{.node = flags.to, .request = {.node = flags.to, .token = {}, .vgpu = flags.vgpu}};
    if (!flags.token.empty()) target.request.token = std::filesystem::absolute(flags.token).string();
    return std::vector{target};
  }
  MigrationOptions options{.to = flags.to,
                           .token = flags.token,
                           .plain = flags.plain,
                           .vgpu = flags.vgpu,
                           .room = flags.room,
                           .away_from = {}};
  WEIR_TRY(options.away_from, AskRelay(relay, std::string(proto::kWhereIs)));
  WEIR_TRY(const ManagerClient client, ManagerClient::Make({flags.managers, flags.manager_token}));
  WEIR_TRY(const nlohmann::json nodes, client.Get("/v1/nodes"));
  return TargetsIn(nodes, options);
}

Result<int> Migrate(const Session& session, const MigrateFlags& flags) {
  WEIR_TRY(const std::string relay, FindRelay(session.places().run_dir, flags.pid));
  WEIR_TRY(const std::vector<MigrationTarget> targets, TargetsFor(flags, relay));
  Result<std::string> said = Fail(Errc::kNotFound, "there is no destination node");
  for (MigrationTarget target : targets) {
    target.request.if_asked = flags.if_asked;
    said = AskRelay(relay, proto::RequestText(target.request));
    if (!said) {
      // The program continues on its old node, so the next target may be tried.
      if (targets.size() > 1) Say(fmt::format("not to {}: {}", target.node, said.error().message));
      continue;
    }
    const auto figures = proto::TakeFigures(*said);
    if (session.json) {
      nlohmann::json answer{{"node", target.node}, {"address", target.request.node}, {"said", *said}};
      for (const auto& [name, number] : figures) answer[name] = number;
      fmt::print("{}\n", answer.dump());
    } else {
      fmt::print("moved to {}: {}\n", target.node, *said);
    }
    return 0;
  }
  return said.error();
}

}  // namespace

void AddMigrate(Command app, Session& session) {
  auto flags = std::make_shared<MigrateFlags>();
  const Command command = AddCommand(
      app, "migrate", "Move a running OpenCL program of 'weir run --node' to another node",
      "  weir migrate --to gpu2:7700 --token job2.token          # the only such program\n"
      "  weir migrate 4242 --to gpu2:7700 --token job2.token     # by its process id\n"
      "  weir migrate --to gpu2 --token tokens/ --manager m1:7710 --manager-token cluster.token\n"
      "  weir migrate --to auto --room 2G --token tokens/ --manager m1:7710    # the idlest with room for it\n"
      "\n"
      "The program only notices a pause. If the new node refuses it, it stays on the old one.\n",
      session);
  command.Add("pid", "PID", flags->pid, "The program's process id (default: the only one)");
  command.Add("--to", "HOST:PORT|NODE|auto", flags->to,
              "The new node: HOST:PORT of its 'weir serve --listen', its name in the cluster, or auto for the best");
  command.Add("--token", "FILE|DIR", flags->token,
              "File from 'weir keys token' there; with a name or auto also a folder with NODE.token for each");
  command.AddFlag("--plain", flags->plain, "No encryption and no token, for 'weir serve --listen-plain'");
  command.Add("--vgpu", "NAME", flags->vgpu, "With --plain: the vGPU there (with a name or auto: the offered one)");
  command.AddParsed("--room", "SIZE", flags->room, ParseBytes, "With auto: memory that the node has to have free");
  command.AddFlag("--if-asked", flags->if_asked, "Only if its node has a drain request for it");
  command.Add("--manager", "HOST:PORT,...", flags->managers,
              "The cluster's managers, for a name or auto (default: $WEIR_MANAGER, else 127.0.0.1:7710)");
  command.Add("--manager-token", "FILE", flags->manager_token, "Your token for the managers");
  command.WhenGiven([flags, &session] {
    if (flags->to.empty()) RejectUsage("--to is required");
    const bool by_address = flags->to.find(':') != std::string::npos;
    if (flags->plain == !flags->token.empty()) RejectUsage("give --token, or --plain and --vgpu");
    if (flags->plain && by_address && flags->vgpu.empty()) RejectUsage("--plain: no token names the vGPU: give --vgpu");
    if (by_address && !(flags->managers.empty() && flags->manager_token.empty()))
      RejectUsage("--manager and --manager-token are of --to NODE and --to auto");
    if (flags->to != kAnyNode && flags->room.count > 0) RejectUsage("--room is of --to auto");
    session.action = [flags, &session] { return Migrate(session, *flags); };
  });
}

}  // namespace weir::cli
