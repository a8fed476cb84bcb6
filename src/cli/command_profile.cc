// SPDX-License-Identifier: Apache-2.0
// weir profile: the times of kernels alone and beside each other on a device of this node (docs/placement.md).
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cli/common/places.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "modules/run_json.h"
#include "platform/files.h"
#include "tools/profile/profile_view.h"
#include "tools/profile/profiler.h"

namespace weir::cli {
namespace {

using modules::KernelProfile;

struct ProfileFlags {
  std::vector<std::string> works;
  std::string socket, device, output, read;
  bool all = false, scenario = false, declared = false;
  std::int64_t rounds = 3;
  Duration time_max = seconds(60);
};

Status CheckProfileFlags(const Session& session, const ProfileFlags& flags) {
  const int sources = (flags.works.empty() ? 0 : 1) + (flags.all ? 1 : 0) + (flags.read.empty() ? 0 : 1);
  if (sources != 1) return Fail(Errc::kInvalidArgument, "name kernels, or give --all, or --read FILE: one of these");
  if (session.json && flags.scenario) return Fail(Errc::kInvalidArgument, "give only one of --json and --scenario");
  return Ok();
}

Result<Profiled> ReadProfile(const std::string& file) {
  WEIR_TRY(const std::string text, platform::ReadFile(file, KernelProfile::kFileBytesMax));
  auto profile = modules::ProfileFrom(text);
  if (!profile) return Fail(profile.error().code, file + ": " + profile.error().message);
  return Profiled{.profile = std::move(*profile)};
}

/// Measures in a separate thread, so that a signal is handled at any time. `code`: the exit code of the signal that
/// ended it.
Result<Profiled> MeasureNow(const Session& session, const ProfileFlags& flags, int& code) {
  ProfileOrder order{.all = flags.all,
                     .device = flags.device,
                     .declared = flags.declared,
                     .rounds = static_cast<std::uint32_t>(flags.rounds),
                     .time_max = flags.time_max};
  for (const std::string& text : flags.works) {
    WEIR_TRY(modules::KernelWork work, modules::ParseWork(text));
    order.works.push_back(std::move(work));
  }
  auto client =
      modules::ModuleClient::OfNode(flags.socket.empty() ? session.places().run_dir + "/modules.sock" : flags.socket);
  constexpr Duration kLook = milliseconds(50);
  std::atomic<bool> stopping = false, done = false;
  Result<Profiled> measured = Fail(Errc::kInternal, "nothing was measured");
  StopSignals signals;
  std::thread worker([&] {
    Profiler profiler(client, stopping, [](const std::string& words) { fmt::print(stderr, "{}\n", Printable(words)); });
    measured = profiler.Measure(order);
    done = true;
  });
  while (!done && !signals.WaitFor(kLook)) {
  }
  stopping = signals.Stopped();
  worker.join();
  if (signals.Stopped()) code = signals.ExitCode();
  return measured;
}

Result<int> Profile(const Session& session, const ProfileFlags& flags) {
  WEIR_TRY_STATUS(CheckProfileFlags(session, flags));
  int code = 0;
  auto measured = flags.read.empty() ? MeasureNow(session, flags, code) : ReadProfile(flags.read);
  if (code != 0) {
    Say("interrupted; its runs are deleted");
    return code;
  }
  if (!measured) return measured.error();
  const KernelProfile& profile = measured->profile;
  const Status written =
      flags.output.empty() ? Ok() : platform::WriteFileAtomically(flags.output, ProfileText(profile));
  WEIR_TRY(const core::InterferenceModel model, FitOf(profile));
  if (session.json) {
    nlohmann::ordered_json report = ToJson(profile);
    if (!profile.pairs.empty()) report["fit"] = modules::ToJson(model);
    report["left_out"] = measured->left_out;
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else if (flags.scenario) {
    WEIR_TRY(const std::string scenario, ScenarioText(profile));
    fmt::print("{}", scenario);
  } else {
    fmt::print("{}", ProfileTables(profile, StdoutTakesColor()));
    if (!profile.pairs.empty()) fmt::print("\n{}", FitText(profile, model));
    if (!flags.output.empty() && written)
      fmt::print("written to {}; 'weir module run --profile {}' places its runs by it\n", flags.output, flags.output);
  }
  if (!written) return written.error();
  return 0;
}

}  // namespace

void AddProfile(Command app, Session& session) {
  auto flags = std::make_shared<ProfileFlags>();
  const Command command = AddCommand(
      app, "profile", "Measure kernels of modules alone and beside each other on a device",
      "  weir profile sort/sorting-network bs/black-scholes\n"
      "  weir profile 'sort/sorting-network n=65536' 'bs/black-scholes n=4096' --rounds 5 --output lab.profile\n"
      "  weir profile --all --device device0\n"
      "  weir module run sort sorting-network --args n=65536 --profile lab.profile\n"
      "  weir profile --read lab.profile --scenario > lab.toml && weir sim run lab.toml\n"
      "\n"
      "Each kernel runs alone, then beside each one (also itself), on one device of this node on which nothing else\n"
      "runs anything meanwhile. The node's placement learns from the pairs. A cluster's managers choose devices\n"
      "themselves, so measure on a node; its profile does for runs of the cluster, too. docs/placement.md\n"
      "\n"
      "EXIT CODES\n"
      "  0 when all was measured; 5 when other runs were on the device; 70 when a kernel failed or its module "
      "crashed,\n"
      "  11 when it exceeded its time limit; 8 when no device is available; 128 + N after signal N; the others of "
      "'weir "
      "--help'.\n",
      session);
  command.Add("work", "MODULE/KERNEL[ ARGUMENTS]", flags->works,
              "Kernels of registered modules, each with its arguments");
  command.AddFlag("--all", flags->all, "Every registered kernel, without arguments; those that fail are left out");
  command.Add("--read", "FILE", flags->read, "Measure nothing: show a profile that --output has written");
  command.AddWhole("--rounds", "N", flags->rounds, 1, 1000, "Runs of each that count; medians of them (default: 3)");
  command.Add("--device", "NAME", flags->device, "On this device (default: the first one that serves)");
  command.AddFlag("--declared", flags->declared,
                  "Take loads from the kernels' tables (default: count launches where possible)");
  command.AddParsed("--seconds-max", "TIME", flags->time_max, ParseDuration,
                    "Time limit of a run; at the limit the profile ends, too (default: 60 s)");
  command.Add("--output", "FILE", flags->output, "Write the profile, for 'weir module run --profile'");
  command.AddFlag("--scenario", flags->scenario,
                  "Print a scenario with kernels of the measured times (docs/scenarios.md)");
  command.Add("--modules-socket", "PATH", flags->socket,
              "This node's weir-modules (default: modules.sock of the run folder)");
  command.WhenGiven([flags, &session] { session.action = [flags, &session] { return Profile(session, *flags); }; });
}

}  // namespace weir::cli
