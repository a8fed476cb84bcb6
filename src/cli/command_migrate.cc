// SPDX-License-Identifier: Apache-2.0
// weir migrate: a running OpenCL program goes on, on another node's device.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "cli/places.h"
#include "cli/text_units.h"
#include "platform/unix_socket.h"
#include "proto/relay_control.h"

namespace weir::cli {
namespace {

constexpr int kAnswerMs = 120'000;  // a kernel may have to end, and programs are built anew

/// The relay of a program that 'weir run --node' started; without a name the only one there is.
Result<std::string> FindRelay(const std::string& run_dir, const std::string& pid) {
  if (!pid.empty()) return fmt::format("{}/relay-{}.sock", run_dir, pid);
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("relay-") && name.ends_with(".sock")) found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Fail(Errc::kNotFound, "no program of 'weir run --node' runs here: " + run_dir + " has no relay's socket");
  return Fail(Errc::kInvalidArgument,
              fmt::format("{} programs of 'weir run --node' run here: say which, by its process id", found.size()));
}

Result<int> Migrate(const Session& session, const std::string& pid, proto::MoveRequest request) {
  if (!request.token.empty()) request.token = std::filesystem::absolute(request.token).string();
  WEIR_TRY(const std::string relay, FindRelay(session.places().run_dir, pid));
  auto socket = platform::ConnectSeqPacket(relay + proto::kControlSuffix);
  if (!socket) return Fail(Errc::kNotFound, fmt::format("no program of 'weir run --node' answers at {}", relay));
  const std::string text = proto::RequestText(request);
  WEIR_TRY_STATUS(platform::SendPacket(socket->get(), std::as_bytes(std::span(text))));
  if (!platform::WaitReadable(socket->get(), kAnswerMs))
    return Fail(Errc::kTimeout, "the relay did not answer within 2 minutes");
  WEIR_TRY(const platform::Packet packet, platform::ReceivePacket(socket->get(), proto::kControlBytesMax));
  WEIR_TRY(const std::string said,
           proto::AnswerFrom({reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()}));
  if (session.json) {
    fmt::print("{}\n", nlohmann::json{{"node", request.node}, {"said", said}}.dump());
  } else {
    fmt::print("moved to {}: {}\n", request.node, said);
  }
  return 0;
}

}  // namespace

void AddMigrate(Command app, Session& session) {
  struct MigrateFlags {
    std::string pid;
    proto::MoveRequest request;
    bool plain = false;
  };
  auto flags = std::make_shared<MigrateFlags>();
  const Command command =
      AddCommand(app, "migrate", "Move a running OpenCL program of 'weir run --node' to another node",
                 "  weir migrate --to gpu2:7700 --token job2.token          # the only one that runs here\n"
                 "  weir migrate 4242 --to gpu2:7700 --token job2.token     # by its process id\n"
                 "\n"
                 "The program notices a pause. If the new node can't take it, the old one goes on.\n",
                 session);
  command.Add("pid", "PID", flags->pid, "The program's process id (default: the only one)");
  command.Add("--to", "HOST:PORT", flags->request.node, "The new node: where its 'weir serve --listen' is");
  command.Add("--token", "FILE", flags->request.token, "From 'weir keys token' there");
  command.AddFlag("--plain", flags->plain, "No encryption and no token, for 'weir serve --listen-plain'");
  command.Add("--vgpu", "NAME", flags->request.vgpu, "With --plain: which vGPU there");
  command.WhenGiven([flags, &session] {
    if (flags->request.node.empty()) RejectUsage("--to is required");
    if (flags->plain == !flags->request.token.empty()) RejectUsage("give --token, or --plain and --vgpu");
    if (flags->plain && flags->request.vgpu.empty()) RejectUsage("--plain: no token says which vGPU: give --vgpu");
    session.action = [flags, &session] { return Migrate(session, flags->pid, flags->request); };
  });
}

}  // namespace weir::cli
