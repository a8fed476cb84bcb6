// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>

#include "cli/common/table.h"
#include "cli/common/version.h"
#include "cli/options.h"
#include "cli/usage_errors.h"

namespace weir::cli {
namespace {

constexpr int kUsageError = 2;  // the same as for Errc::kInvalidArgument

/// The index, from `from` on, of the first argument that is neither an option of `app` nor the value of one.
std::size_t FirstPositional(const CLI::App& app, const std::vector<std::string>& arguments, std::size_t from) {
  std::size_t i = from;
  while (i < arguments.size() && arguments[i].size() > 1 && arguments[i][0] == '-' && arguments[i] != "--") {
    const std::string& argument = arguments[i];
    const CLI::Option* option = argument.find('=') == std::string::npos ? app.get_option_no_throw(argument) : nullptr;
    const bool takes_value =
        option != nullptr && option->get_items_expected_max() > 0 && option->get_expected_max() > 0;
    i += takes_value ? 2 : 1;
  }
  return std::min(i, arguments.size());
}

/// A command whose arguments include a program, or the words of another command.
struct ProgramCommand {
  const CLI::App* command;
  bool needs_dashes;  // the program follows "--", because other arguments have another meaning
};

/// Removes the program from `arguments`: its name and everything after it. Otherwise CLI11 would parse `weir run top`
/// as two commands of weir.
std::vector<std::string> TakeProgram(const CLI::App& app, const std::vector<ProgramCommand>& commands,
                                     std::vector<std::string>& arguments) {
  const std::size_t given = FirstPositional(app, arguments, 0);
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const ProgramCommand& one) {
    return given < arguments.size() && one.command->get_name() == arguments[given];
  });
  if (found == commands.end()) return {};
  std::size_t begin = FirstPositional(*found->command, arguments, given + 1);
  if (found->needs_dashes)
    begin = static_cast<std::size_t>(
        std::find(arguments.begin() + static_cast<std::ptrdiff_t>(begin), arguments.end(), "--") - arguments.begin());
  const bool dashes = begin < arguments.size() && arguments[begin] == "--";
  std::vector<std::string> program(arguments.begin() + static_cast<std::ptrdiff_t>(begin + (dashes ? 1 : 0)),
                                   arguments.end());
  arguments.resize(begin);
  return program;
}

int ReportUsage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  Say(UsageErrorText(app, error));
  fmt::print(stderr, "Try '{} --help'.\n", CommandName(app));
  return kUsageError;
}

int ReportError(const Error& error, bool as_json) {
  if (as_json)
    fmt::print(stderr, "{}\n",
               nlohmann::json{{"error", {{"code", NameOf(error.code)}, {"message", error.message}}}}.dump(
                   -1, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    Say(error.message);
  return EntryOf(error.code).exit_code;
}

std::string ExitCodeTable() {
  std::string text = "EXIT CODES\n   0  done\n";
  for (const ErrcEntry& entry : kErrcTable) text += fmt::format("  {:>2}  {}\n", entry.exit_code, entry.name);
  return text;
}

/// Returns the commands that take a program.
std::vector<ProgramCommand> DefineCommands(CLI::App& app, Session& session) {
  const Command weir(app);
  app.name("weir");
  app.set_version_flag("--version", fmt::format("weir {}", kVersion));
  app.require_subcommand(1);
  app.footer(
      "EXAMPLES\n"
      "  weir demo                            # three programs share a GPU, under four policies\n"
      "  weir run --weight 50 -- glxgears     # a program with its own part of the GPU\n"
      "  weir top                             # the use of each vGPU, live\n"
      "  weir record --out f.csv -- glxgears  # each of its frames, and their figures\n"
      "  weir doctor -- glxgears              # whether and how it is measured; if not, why\n"
      "  weir help vgpu create                # the help of a command\n\n" +
      ExitCodeTable());
  weir.AddFlag("--json", session.json, "Print JSON");
  weir.Add("--socket", "PATH", session.place_flags.socket, "The daemon's control socket");
  weir.Add("--run-dir", "DIR", session.place_flags.run_dir, "The run folder");
  AddServe(weir, session);
  std::vector<ProgramCommand> with_program;
  with_program.push_back({&AddRun(weir, session).app(), /*needs_dashes=*/false});
  AddTop(weir, session);
  AddDashboard(weir, session);
  with_program.push_back({&AddRecord(weir, session).app(), /*needs_dashes=*/true});
  with_program.push_back({&AddDoctor(weir, session).app(), /*needs_dashes=*/false});
  AddVgpu(weir, session);
  AddPolicy(weir, session);
  AddOversell(weir, session);
  AddMemory(weir, session);
  AddKeys(weir, session);
  AddMigrate(weir, session);
  AddManager(weir, session);
  AddCluster(weir, session);
  AddPlan(weir, session);
  AddAnalyze(weir, session);
  AddModule(weir, session);
  AddProfile(weir, session);
  AddEvents(weir, session);
  AddMetrics(weir, session);
  AddDevices(weir, session);
  AddStatus(weir, session);
  AddStop(weir, session);
  AddDemo(weir, session);
  AddSim(weir, session);
  AddVersion(weir, session);
  with_program.push_back({&AddCompletion(weir, session).app(), /*needs_dashes=*/true});
  with_program.push_back({&AddHelp(weir, session).app(), /*needs_dashes=*/false});
  return with_program;
}

int RunCommandLine(int argc, char** argv) {
  Session session;
  CLI::App app("weir shares a GPU between unmodified programs and keeps the promise made to each");
  const std::vector<ProgramCommand> with_program = DefineCommands(app, session);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    fmt::print(stderr, "{}", app.help());
    return kUsageError;
  }
  session.program = TakeProgram(app, with_program, arguments);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 expects them reversed
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return ReportUsage(app, error);
  }
  const Result<int> done = session.action();
  const int code = done ? *done : ReportError(done.error(), session.json);
  if (std::fflush(stdout) != 0 && code == 0)
    return ReportError(Fail(Errc::kIo, fmt::format("cannot write the output: {}", std::strerror(errno))), session.json);
  return code;
}

}  // namespace

int Main(int argc, char** argv) {
  try {
    return RunCommandLine(argc, argv);
  } catch (const std::system_error& error) {                           // from fmt when stdout can't be written
    if (error.code() == std::errc::broken_pipe) return 128 + SIGPIPE;  // `weir top | head`
    Say(error.what());
    return EntryOf(Errc::kIo).exit_code;
  } catch (const std::exception& error) {
    Say(fmt::format("internal error: {}; please report it", error.what()));
    return EntryOf(Errc::kInternal).exit_code;
  }
}

}  // namespace weir::cli
