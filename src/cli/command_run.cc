// SPDX-License-Identifier: Apache-2.0
// weir run: executes the program with the shim preloaded and the address of its vGPU in the environment.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/common/places.h"
#include "cli/common/program.h"
#include "cli/common/tenant.h"
#include "cli/common/text_units.h"
#include "cli/common/views.h"
#include "cli/migration_targets.h"
#include "cli/options.h"
#include "cli/private_daemon.h"
#include "cli/remote_node.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/gather.h"

namespace weir::cli {
namespace {

using nlohmann::json;

// Exit codes as in a shell.
constexpr int kCannotExecute = 126;
constexpr int kCannotFind = 127;
constexpr int kNotHeld = 5;  // --strict, and the shim can't be loaded into the program

struct RunFlags {
  std::string vgpu, name;
  RemoteNode remote;
  GivenSettings settings;
  bool strict = false;
};

/// The named vGPU, or a new ephemeral one that ends with this process.
Result<VgpuView> TakeVgpu(const Session& session, const RunFlags& flags) {
  const ControlClient client = session.client();
  if (flags.vgpu.empty())
    return MakeEphemeralVgpu(client, flags.name.empty() ? EphemeralName(session.program[0], getpid()) : flags.name,
                             flags.settings);
  WEIR_TRY(const json reply, client.Get(VgpuTarget(flags.vgpu)));
  return VgpuFromJson(reply);
}

/// Returns only on failure.
int Execute(const Program& program, std::vector<std::string> arguments) {
  const std::vector<char*> argv = ArgvOf(arguments);
  // execvp lets a shell read what the kernel refuses, and a shell reads a Windows program as a script.
  if (program.windows)
    execv(program.path.c_str(), argv.data());
  else
    execvp(argv[0], argv.data());
  const int error = errno;
  Say(fmt::format("cannot run '{}': {}", arguments[0], WhyNotExecuted(arguments[0], program.windows, error)));
  return error == ENOENT ? kCannotFind : kCannotExecute;
}

/// Whether the program uses OpenGL, which does not run on another machine. Says what happens then.
bool UsesOpenGl(const std::string& name, bool strict) {
  bool gl = false;
  for (const ImageFacts& image : GatherProgram(name).chain)
    for (const std::string& library : image.needed)
      gl |= std::ranges::any_of(std::array{"libGL.so", "libGLX.so", "libEGL.so", "libOpenGL.so", "libGLESv2.so"},
                                [&](const char* one) { return library.starts_with(one); });
  if (gl)
    Say((strict ? "not run (--strict): " : "warning: ") + name +
        " uses OpenGL, which stays on this machine, neither paced nor metered; only OpenCL runs on "
        "the --node");
  return gl;
}

Result<int> RunProgram(const Session& session, const RunFlags& flags) {
  const auto program = FindProgram(session.program[0]);
  if (!program) {
    Say(program.error().message);
    return program.error().code == Errc::kNotFound ? kCannotFind : kCannotExecute;
  }
  if (!program->caution.empty()) {
    Say(flags.strict ? "not run (--strict): " + program->caution
                     : "warning: " + program->caution + "; it runs unthrottled");
    if (flags.strict) return kNotHeld;
  }
  if (!flags.remote.node.empty()) {
    RemoteNode remote = flags.remote;
    remote.vgpu = flags.vgpu;
    if (UsesOpenGl(session.program[0], flags.strict) && flags.strict) return kNotHeld;
    remote.program = std::filesystem::path(session.program[0]).filename().string();
    WEIR_TRY(const auto there, StartRelay(remote, session.places().run_dir));
    for (const auto& [name, value] : there) setenv(name.c_str(), value.c_str(), 1);
    return Execute(*program, session.program);
  }
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  WEIR_TRY(const std::string library, FindPreloadLibrary(self));
  WEIR_TRY_STATUS(EnsureDaemon(session.places(), flags.vgpu));
  WEIR_TRY(const VgpuView vgpu, TakeVgpu(session, flags));
  if (flags.vgpu.empty() && !vgpu.promise.empty()) Say("promise: " + vgpu.promise);
  Warn(vgpu.warnings);
  WEIR_TRY(const auto environment, TenantEnvironment(vgpu, library));
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  return Execute(*program, session.program);
}

void CheckMove(const RemoteNode& remote) {
  const MoveFlags& move = remote.move;
  if (!move.given()) return;
  if (remote.node.empty() || move.to.empty())
    RejectUsage("--move-token, --room, --manager and --manager-token are of --move-to, and that is of --node");
  const bool by_address = move.to.find(':') != std::string::npos;
  if (remote.plain == !move.token.empty())
    RejectUsage(remote.plain ? "--plain uses no token: the other node is entered without one, too"
                             : "--move-to: needs --move-token FILE|DIR, made by 'weir keys token VGPU' there");
  if (by_address && !(move.managers.empty() && move.manager_token.empty()))
    RejectUsage("--manager and --manager-token are of --move-to NODE and --move-to auto");
  if (move.to != kAnyNode && move.room.count > 0) RejectUsage("--room is of --move-to auto");
}

void CheckRemote(RunFlags& flags) {
  RemoteNode& remote = flags.remote;
  CheckMove(remote);
  if (remote.node.empty()) {
    if (remote.plain || !remote.token.empty()) RejectUsage("--token and --plain are for a remote node: give --node");
    return;
  }
  if (flags.settings.Any() || !flags.name.empty())
    RejectUsage("--node: set the promises of its vGPU on that machine, with 'weir vgpu set'");
  if (remote.by_port()) {
    if (remote.plain || !remote.token.empty() || !flags.vgpu.empty())
      RejectUsage("--node DEVICE: the host assigns this machine's vGPU: omit --token, --plain and --vgpu");
    return;
  }
  if (remote.plain && flags.vgpu.empty()) RejectUsage("--plain: no token names the vGPU: give --vgpu");
  if (remote.plain && !remote.token.empty()) RejectUsage("--plain uses no token");
  if (!remote.plain && !flags.vgpu.empty()) RejectUsage("--vgpu: the token names the vGPU");
  if (!remote.plain && remote.token.empty()) remote.token = EnvironmentVariable("WEIR_TOKEN");
  if (!remote.plain && remote.token.empty())
    RejectUsage("--node: needs --token FILE (or WEIR_TOKEN), made by 'weir keys token VGPU' on that machine");
}

void AddMoveOptions(const Command& command, MoveFlags& move) {
  command.Add("--move-to", "HOST:PORT|NODE|auto", move.to,
              "With --node: move there, as by 'weir migrate', when the node is overloaded and makes a drain "
              "request (default: stay)");
  command.Add("--move-token", "FILE|DIR", move.token,
              "File from 'weir keys token' there; with a name or auto also a folder with NODE.token for each");
  command.AddParsed("--room", "SIZE", move.room, ParseBytes,
                    "With --move-to auto: memory that the node has to have free");
  command.Add("--manager", "HOST:PORT,...", move.managers,
              "The cluster's managers, for --move-to NODE or auto (default: $WEIR_MANAGER, else 127.0.0.1:7710)");
  command.Add("--manager-token", "FILE", move.manager_token, "Your token for the managers");
}

constexpr const char* kRunExamples =
    "  weir run -- glxgears                          # on a new vGPU, while it runs\n"
    "  weir run --weight 50 --fps 60 -- glmark2 -b terrain\n"
    "  weir vgpu create game --weight 50\n"
    "  weir run --vgpu game -- ./start-game.sh       # its children share the vGPU\n"
    "  weir run --node gpu1:7700 --token job.token -- clinfo     # OpenCL, on another machine's device\n"
    "  weir run --node gpu1:7700 --token job.token --move-to gpu2:7700 --move-token job2.token -- ./job\n"
    "                                                # moves there on a drain request of gpu1\n"
    "  weir run --node /dev/virtio-ports/weir.0 -- clinfo        # in a virtual machine: on its host's\n"
    "\n"
    "EXIT CODES\n"
    "  The program's own; 127 when it can't be found, 126 when it can't be executed; 5 with --strict when it can't be\n"
    "  held; before it starts also 3 (no such vGPU), 8 (no daemon) and the others of 'weir --help'.\n";

}  // namespace

Command AddRun(Command app, Session& session) {
  auto flags = std::make_shared<RunFlags>();
  const Command command = AddCommand(app, "run", "Run a program, unmodified, on a vGPU", kRunExamples, session);
  command.SetUsage("weir run [OPTIONS] [--] PROGRAM [ARGUMENTS...]");
  const Option vgpu =
      command.Add("--vgpu", "NAME", flags->vgpu, "An existing vGPU (default: a new one that ends with the program)");
  command.Add("--name", "NAME", flags->name, "The new vGPU's name (default: the program's, with its process id)")
      .Excludes(vgpu);
  command.AddFlag("--strict", flags->strict,
                  "Don't run a program that can't be paced and metered (static, setuid, 32-bit)");
  command.Add(
      "--node", "HOST:PORT|DEVICE", flags->remote.node,
      "Run OpenCL on another machine's device: HOST:PORT of its 'weir serve --listen'. In a virtual machine, on the "
      "host's device: the path of the guest's port ('weir serve --guest' on the host) or of the shared memory "
      "('--guest-memory')");
  command.Add("--token", "FILE", flags->remote.token,
              "With --node: file from 'weir keys token' there, which names the vGPU (default: $WEIR_TOKEN)");
  command.AddFlag("--plain", flags->remote.plain,
                  "With --node and --vgpu: no encryption and no token, for 'weir serve --listen-plain'");
  AddMoveOptions(command, flags->remote.move);
  AddSettingOptions(command, flags->settings, /*creates=*/true);
  command.WhenGiven([flags, &session] {
    CheckRemote(*flags);
    if (!flags->vgpu.empty() && flags->settings.Any())
      RejectUsage(
          fmt::format("--vgpu: '{0}' has its own settings; change them with 'weir vgpu set {0} ...'", flags->vgpu));
    if (session.program.empty()) RejectUsage("PROGRAM is required");
    session.action = [flags, &session] { return RunProgram(session, *flags); };
  });
  return command;
}

}  // namespace weir::cli
