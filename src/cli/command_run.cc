// SPDX-License-Identifier: Apache-2.0
// weir run: becomes the program, with the shim preloaded and the way to its vGPU in the environment.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/options.h"
#include "cli/private_daemon.h"
#include "cli/program.h"
#include "cli/tenant.h"
#include "cli/views.h"

namespace weir::cli {
namespace {

using nlohmann::json;

// As a shell has them.
constexpr int kCannotExecute = 126;
constexpr int kCannotFind = 127;
constexpr int kNotHeld = 5;  // --strict, and the shim can't get into the program

struct RunFlags {
  std::string vgpu, name;
  VgpuSettings settings;
  bool strict = false;
};

/// The vGPU to attach to: the named one, or one of our own that ends with this process.
Result<VgpuView> TakeVgpu(const Session& session, const RunFlags& flags) {
  const ControlClient client = session.client();
  if (flags.vgpu.empty())
    return MakeEphemeralVgpu(client, flags.name.empty() ? EphemeralName(session.program[0], getpid()) : flags.name,
                             flags.settings);
  WEIR_TRY(const json reply, client.Get(VgpuTarget(flags.vgpu)));
  return VgpuFromJson(reply);
}

/// Returns only when it fails.
int Execute(std::vector<std::string> arguments) {
  const std::vector<char*> argv = ArgvOf(arguments);
  execvp(argv[0], argv.data());
  const int error = errno;
  Say(fmt::format("cannot run '{}': {}", arguments[0], std::strerror(error)));
  return error == ENOENT ? kCannotFind : kCannotExecute;
}

Result<int> RunProgram(const Session& session, const RunFlags& flags) {
  const auto program = FindProgram(session.program[0]);
  if (!program) {
    Say(program.error().message);
    return program.error().code == Errc::kNotFound ? kCannotFind : kCannotExecute;
  }
  if (!program->caution.empty()) {
    Say((flags.strict ? "not run (--strict): " : "warning: ") + program->caution);
    if (flags.strict) return kNotHeld;
  }
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  WEIR_TRY(const std::string library, FindPreloadLibrary(self));
  WEIR_TRY_STATUS(EnsureDaemon(session.places()));
  WEIR_TRY(const VgpuView vgpu, TakeVgpu(session, flags));
  WEIR_TRY(const auto environment, TenantEnvironment(vgpu, library));
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  return Execute(session.program);
}

constexpr const char* kRunExamples =
    "  weir run -- glxgears                          # a vGPU of its own, for as long as it runs\n"
    "  weir run --weight 50 --fps 60 -- glmark2 -b terrain\n"
    "  weir vgpu create game --weight 50\n"
    "  weir run --vgpu game -- ./start-game.sh       # its children share the vGPU\n"
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
  AddSettingOptions(command, flags->settings, /*creates=*/true);
  command.WhenGiven([flags, &session] {
    if (!flags->vgpu.empty() && flags->settings.Any())
      RejectUsage(
          fmt::format("--vgpu: '{0}' has its own settings; change them with 'weir vgpu set {0} ...'", flags->vgpu));
    if (session.program.empty()) RejectUsage("PROGRAM is required");
    session.action = [flags, &session] { return RunProgram(session, *flags); };
  });
  return command;
}

}  // namespace weir::cli
