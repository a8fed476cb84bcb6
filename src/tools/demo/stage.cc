// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/stage.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "cli/common/places.h"
#include "cli/common/program.h"
#include "cli/common/views.h"
#include "platform/clock.h"
#include "platform/fd.h"

namespace weir::cli {
namespace {

namespace fs = std::filesystem;

constexpr Duration kReadyLimit = seconds(15);  // of the display and of the dashboard
constexpr Duration kDaemonLimit = seconds(5);
constexpr Duration kFramesLimit = seconds(60);  // a program first loads and compiles its shaders

/// A pipe into which a child writes one line once it is ready. The child inherits its end.
struct ReadyPipe {
  platform::Fd ours, child_end;
  static Result<ReadyPipe> Make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return Fail(Errc::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    return ReadyPipe{platform::Fd(ends[0]), platform::Fd(ends[1])};
  }
  /// Empty: the child has ended, or wrote nothing in time.
  std::string ReadLine(Child& child) {
    child_end.Reset();
    std::string text;
    const Instant end = platform::Now() + kReadyLimit;
    while (platform::Now() < end && !child.Ended()) {
      pollfd readable{ours.get(), POLLIN, 0};
      if (poll(&readable, 1, 50) <= 0) continue;
      char bytes[128];
      const ssize_t count = read(ours.get(), bytes, sizeof(bytes));
      if (count <= 0) return "";
      text.append(bytes, static_cast<std::size_t>(count));
      if (text.ends_with('\n')) return text.substr(0, text.size() - 1);
    }
    return "";
  }
};

/// Whether the daemon has all policies. Checked before the first phase runs.
Status CheckPolicies(const ControlClient& client, const std::vector<std::string>& wanted) {
  WEIR_TRY(const auto reply, client.Get("/v1/policies"));
  WEIR_TRY(const auto policies, PoliciesFromJson(reply));
  std::string known;
  for (const PolicyView& policy : policies) known += (known.empty() ? "" : ", ") + policy.name;
  for (const std::string& name : wanted)
    if (std::none_of(policies.begin(), policies.end(), [&](const PolicyView& policy) { return policy.name == name; }))
      return Fail(Errc::kInvalidArgument, fmt::format("unknown policy '{}'; known: {}", name, known));
  return Ok();
}

}  // namespace

Result<TemporaryFolder> TemporaryFolder::Make(bool keep) {
  const std::string base = EnvironmentVariable("TMPDIR");
  std::string path = (base.empty() ? "/tmp" : base) + "/weir-demo-XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    return Fail(Errc::kIo, fmt::format("cannot make a temporary folder {}: {}; set TMPDIR to one you may write to",
                                       path, std::strerror(errno)));
  return TemporaryFolder(path, keep);
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  if (keep_) {
    fmt::print(stderr, "weir: kept {}\n", path_.string());
    return;
  }
  std::error_code nothing_more_to_do;
  fs::remove_all(path_, nothing_more_to_do);
}

bool NeedsOwnDisplay(const DemoOptions& options) {
  return options.own_display || EnvironmentVariable("DISPLAY").empty();
}

Status CheckPrograms(const std::vector<Workload>& workloads, bool own_display) {
  std::set<std::string> programs, packages;
  auto check = [&](const std::string& program, const std::string& package) {
    if (FindProgram(program)) return;
    programs.insert(program);
    packages.insert(package);
  };
  if (own_display) check("Xvfb", "xvfb");
  for (const Workload& workload : workloads) check(workload.command[0], workload.package);
  if (programs.empty()) return Ok();
  std::string missing, install;
  for (const std::string& program : programs) missing += (missing.empty() ? "" : ", ") + program;
  for (const std::string& package : packages) install += " " + package;
  return Fail(Errc::kNotFound,
              fmt::format("the demo needs {}, which isn't in $PATH; on Debian: apt-get install{}", missing, install));
}

Result<std::unique_ptr<Stage>> Stage::Open(const DemoOptions& options) {
  WEIR_TRY(TemporaryFolder folder, TemporaryFolder::Make(options.keep));
  std::unique_ptr<Stage> stage(new Stage(std::move(folder)));
  WEIR_TRY_STATUS(stage->StartDisplay(NeedsOwnDisplay(options)));
  WEIR_TRY_STATUS(stage->StartDaemon(options));
  if (!options.dashboard.empty()) WEIR_TRY_STATUS(stage->StartDashboard(options.dashboard));
  return stage;
}

Status Stage::Start(const std::vector<Workload>& workloads, StopSignals& signals) {
  for (const Workload& workload : workloads) WEIR_TRY_STATUS(StartProgram(workload));
  return AwaitFrames(workloads, signals);
}

Status Stage::StartDisplay(bool own) {
  // A program that waits for the display's refresh would not use more than its part of the device.
  environment_ = {{"vblank_mode", "0"}, {"__GL_SYNC_TO_VBLANK", "0"}};
  if (!own) {
    display_name_ = "display " + EnvironmentVariable("DISPLAY");
    return Ok();
  }
  WEIR_TRY(ReadyPipe ready, ReadyPipe::Make());
  ChildSpec spec{{"Xvfb", "-displayfd", fmt::format("{}", ready.child_end.get()), "-screen", "0", "1280x1024x24",
                  "-nolisten", "tcp", "-noreset"},
                 {},
                 folder_.File("xvfb.log"),
                 ready.child_end.get()};
  WEIR_TRY(Child xvfb, Child::Start(spec));
  const std::string number = ready.ReadLine(xvfb);
  if (number.empty()) return Fail(Errc::kUnavailable, fmt::format("Xvfb didn't start: {}", LogTail(spec.log_path)));
  display_name_ = "Xvfb :" + number;
  environment_.insert(environment_.end(),
                      {{"DISPLAY", ":" + number}, {"LIBGL_ALWAYS_SOFTWARE", "1"}, {"GALLIUM_DRIVER", "llvmpipe"}});
  players_.push_back({"Xvfb", spec.log_path, std::move(xvfb)});
  return Ok();
}

Status Stage::StartDaemon(const DemoOptions& options) {
  ChildSpec spec{{"/proc/self/exe", "serve", "--run-dir", folder_.File("run"), "--state-dir", folder_.File("state")},
                 {},
                 folder_.File("daemon.log"),
                 -1};
  if (!options.device.empty()) spec.argv.insert(spec.argv.end(), {"--device", options.device});
  if (!options.device_cpus.empty()) {
    std::string cpus;
    for (const int cpu : options.device_cpus) cpus += fmt::format("{}{}", cpus.empty() ? "" : ",", cpu);
    spec.argv.insert(spec.argv.end(), {"--device-cpus", cpus});
  }
  WEIR_TRY(Child child, Child::Start(spec));
  players_.push_back({"the daemon", spec.log_path, std::move(child)});
  const Instant end = platform::Now() + kDaemonLimit;
  while (!client().Get("/v1/status")) {
    WEIR_TRY_STATUS(AllAlive());
    if (platform::Now() > end)
      return Fail(Errc::kTimeout, fmt::format("the demo's daemon didn't answer within {:.0f} s: {}",
                                              SecondsOf(kDaemonLimit), LogTail(spec.log_path)));
    poll(nullptr, 0, 10);
  }
  return CheckPolicies(client(), options.policies);
}

Status Stage::StartDashboard(const std::string& listen) {
  WEIR_TRY(const fs::path self, SelfExecutable());
  const std::string program = FindHelper(self, kDashboard);
  if (program.empty()) return Fail(Errc::kNotFound, fmt::format("{} is not installed beside weir", kDashboard));
  WEIR_TRY(ReadyPipe ready, ReadyPipe::Make());
  ChildSpec spec{{program, "--quiet", "--listen", listen, "--control", client().socket_path(), "--ready-fd",
                  fmt::format("{}", ready.child_end.get())},
                 {},
                 folder_.File("dashboard.log"),
                 ready.child_end.get()};
  WEIR_TRY(Child child, Child::Start(spec));
  dashboard_address_ = ready.ReadLine(child);
  if (dashboard_address_.empty())
    return Fail(Errc::kUnavailable, fmt::format("the dashboard didn't start: {}", LogTail(spec.log_path)));
  players_.push_back({"the dashboard", spec.log_path, std::move(child)});
  return Ok();
}

/// Starts a program with `weir run`, as a user would.
Status Stage::StartProgram(const Workload& workload) {
  ChildSpec spec{{"/proc/self/exe", "run", "--socket", client().socket_path(), "--name", workload.name, "--weight",
                  fmt::format("{}", workload.weight)},
                 environment_,
                 folder_.File(workload.name + ".log"),
                 -1};
  if (!workload.device.empty()) spec.argv.insert(spec.argv.end(), {"--device", workload.device});
  if (workload.fps > 0) spec.argv.insert(spec.argv.end(), {"--fps", fmt::format("{:g}", workload.fps)});
  spec.argv.push_back("--");
  spec.argv.insert(spec.argv.end(), workload.command.begin(), workload.command.end());
  WEIR_TRY(Child child, Child::Start(spec));
  players_.push_back({workload.command[0] + " (" + workload.name + ")", spec.log_path, std::move(child)});
  return Ok();
}

Status Stage::AllAlive() {
  for (Player& player : players_)
    if (const auto how = player.child.Ended())
      return Fail(Errc::kUnavailable, fmt::format("{} ended ({}): {}", player.name, *how, LogTail(player.log_path)));
  return Ok();
}

Status Stage::AwaitFrames(const std::vector<Workload>& workloads, StopSignals& signals) {
  const Instant end = platform::Now() + kFramesLimit;
  while (true) {
    WEIR_TRY_STATUS(AllAlive());
    WEIR_TRY(const auto reply, client().Get("/v1/vgpus"));
    WEIR_TRY(const auto vgpus, VgpusFromJson(reply));
    std::string waiting;
    for (const Workload& workload : workloads) {
      const auto shown = std::find_if(vgpus.begin(), vgpus.end(), [&](const VgpuView& v) {
        return v.name == workload.name && v.totals.frames > 0;
      });
      if (shown == vgpus.end()) waiting += (waiting.empty() ? "" : ", ") + workload.name;
    }
    if (waiting.empty()) return Ok();
    if (platform::Now() > end)
      return Fail(Errc::kTimeout, fmt::format("no frame of {} within {:.0f} s; read the logs with --keep, and check "
                                              "whether the program runs without weir",
                                              waiting, SecondsOf(kFramesLimit)));
    if (signals.WaitFor(milliseconds(50))) return Fail(Errc::kUnavailable, "stopped before the first frame");
  }
}

}  // namespace weir::cli
