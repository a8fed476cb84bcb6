// SPDX-License-Identifier: Apache-2.0
// weir doctor: does Weir control a program, which meter measures it, and if not, why?
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "cli/private_daemon.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/gather.h"
#include "tools/doctor/trial.h"

namespace weir::cli {
namespace {

struct DoctorFlags {
  Duration span = seconds(5);
  bool no_run = false;
  bool no_color = false;
};

/// Starts a private daemon if necessary, like `weir run`.
TrialFacts Try(const Session& session, const DoctorFlags& flags, const std::string& library) {
  StopSignals signals;
  if (const Status daemon = EnsureDaemon(session.places()); !daemon) {
    TrialFacts facts;
    facts.code = daemon.error().code;
    facts.error = daemon.error().message;
    return facts;
  }
  return TryProgram(session.client(), {session.program, library, flags.span}, signals);
}

Result<int> Examine(const Session& session, const DoctorFlags& flags) {
  DoctorFacts facts;
  facts.install = GatherInstall();
  facts.environment = GatherEnvironment();
  facts.daemon = GatherDaemon(session.places());
  if (!session.program.empty()) {
    facts.program = GatherProgram(session.program[0]);
    if (!flags.no_run && !facts.program->code && facts.install.stub.error.empty())
      facts.trial = Try(session, flags, facts.install.stub.path);
  }
  const std::vector<Finding> findings = Judge(facts);
  if (session.json)
    fmt::print("{}\n", FindingsJson(findings, facts).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}", FindingsText(findings, StdoutTakesColor() && !flags.no_color));
  return ExitCodeOf(findings);
}

constexpr const char* kDoctorExamples =
    "  weir doctor                          # the installation and the daemon\n"
    "  weir doctor -- glxgears              # runs it for 5 s: whether it is attached, and its meter\n"
    "  weir doctor --seconds 30 -- ./start-game.sh\n"
    "  weir doctor --no-run --json -- /usr/bin/game\n"
    "\n"
    "FINDINGS\n"
    "  Each is 'ok', a 'note' or a 'problem', with the reason and the remedy.\n"
    "\n"
    "EXIT CODES\n"
    "  0 when there is no problem (and the program, if given, is attached); else that of the first problem: 8 when\n"
    "  the program is not attached or no daemon answers, 3 when something isn't found, 6 when it isn't permitted, and\n"
    "  the others of 'weir --help'.\n";

}  // namespace

Command AddDoctor(Command app, Session& session) {
  auto flags = std::make_shared<DoctorFlags>();
  const Command command = AddCommand(app, "doctor", "Find out why a program is not attached", kDoctorExamples, session);
  command.SetUsage("weir doctor [OPTIONS] [[--] PROGRAM [ARGUMENTS...]]");
  command.AddParsed("--seconds", "N", flags->span, ParseDuration, "How long the program is run (default 5)");
  command.AddFlag("--no-run", flags->no_run, "Read only the program's files, without running it");
  command.AddFlag("--no-color", flags->no_color, "No colours (NO_COLOR in the environment does it too)");
  command.WhenGiven([flags, &session] { session.action = [flags, &session] { return Examine(session, *flags); }; });
  return command;
}

}  // namespace weir::cli
