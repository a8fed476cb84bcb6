// SPDX-License-Identifier: Apache-2.0
// weir record: writes the frames of a vGPU, or of a program that it starts, to files and prints statistics.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common/child.h"
#include "cli/common/program.h"
#include "cli/common/tenant.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "cli/options.h"
#include "cli/private_daemon.h"
#include "platform/clock.h"
#include "tools/record/frame_recorder.h"

namespace weir::cli {
namespace {

constexpr Duration kFramesPollEvery = milliseconds(200);
/// Agents' rings are read every 50 ms, so that the last frames arrive after the end of a recording.
constexpr Duration kLastFrames = milliseconds(150);
constexpr Duration kDetachLimit = seconds(1);
/// How long a program that record starts may take until its first frame.
constexpr Duration kFirstFrameLimit = seconds(60);
constexpr std::int64_t kForEver = std::numeric_limits<std::int64_t>::max();

struct RecordFlags {
  std::string vgpu, name;
  GivenSettings settings;
  RecordPaths paths;
  Duration span{};  // zero: until a signal
};

/// The recorded vGPU and the program that was started for the recording.
struct Subject {
  VgpuView vgpu;
  std::optional<Child> child;
};

Result<VgpuView> NamedVgpu(const ControlClient& client, const std::string& name) {
  WEIR_TRY(const nlohmann::json reply, client.Get(VgpuTarget(name)));
  return VgpuFromJson(reply);
}

/// Makes the vGPU. The program is started once the recorder is ready.
Result<VgpuView> VgpuForProgram(const Session& session, const RecordFlags& flags) {
  WEIR_TRY(const Program program, FindProgram(session.program[0]));
  if (!program.caution.empty()) Say("warning: " + program.caution + "; it runs unthrottled");
  WEIR_TRY_STATUS(EnsureDaemon(session.places()));
  return MakeEphemeralVgpu(
      session.client(), flags.name.empty() ? EphemeralName(session.program[0], getpid()) : flags.name, flags.settings);
}

Result<Child> StartProgram(const Session& session, const VgpuView& vgpu) {
  WEIR_TRY(const std::filesystem::path self, SelfExecutable());
  WEIR_TRY(const std::string library, FindPreloadLibrary(self));
  WEIR_TRY(auto environment, TenantEnvironment(vgpu, library));
  ChildSpec spec;
  spec.argv = session.program;
  spec.environment = std::move(environment);
  return Child::Start(spec);
}

/// Why recording ends; empty: it continues.
std::string EndedBy(const FrameRecorder& recorder, Subject& subject, const StopSignals& signals, bool time_is_up) {
  if (signals.Stopped()) return "signal";
  if (subject.child && subject.child->Ended()) return "program";
  if (recorder.Full()) return "limit";
  return time_is_up ? "time" : "";
}

/// Records until the end and returns its reason. Removal of the vGPU is an end too. The time of a program that record
/// starts counts from its first frame, because a program may load for longer than that time.
Result<std::string> RecordUntilItEnds(FrameRecorder& recorder, Subject& subject, StopSignals& signals, Instant start,
                                      Duration span) {
  const bool forever = span <= Duration(0);
  bool loading = subject.child.has_value() && !forever;
  Instant end = forever ? InstantFromNs(kForEver) : start + (loading ? std::max(span, kFirstFrameLimit) : span);
  while (true) {
    if (loading && recorder.AnyFrame()) {
      loading = false;
      end = platform::Now() + span;
    }
    const Duration left = end - platform::Now();
    signals.WaitFor(std::clamp(left, Duration(0), kFramesPollEvery));
    const std::string why = EndedBy(recorder, subject, signals, platform::Now() >= end);
    if (!why.empty()) return why;
    const Status polled = recorder.Poll(kForEver);
    if (!polled && polled.error().code == Errc::kNotFound) return std::string("vgpu");
    WEIR_TRY_STATUS(polled);
  }
}

/// Reads the frames that ended before `until_ns` and have not arrived yet.
Status TakeLastFrames(FrameRecorder& recorder, bool program_ended, std::int64_t until_ns) {
  const Instant limit = platform::Now() + (program_ended ? kDetachLimit : kLastFrames);
  while (true) {
    const Status polled = recorder.Poll(until_ns);
    if (!polled && polled.error().code == Errc::kNotFound) return Ok();
    WEIR_TRY_STATUS(polled);
    if (platform::Now() >= limit || (program_ended && !recorder.Attached())) return Ok();
    usleep(20'000);
  }
}

void PrintSummary(const RecordingSummary& summary, const Session& session, bool csv_on_stdout) {
  std::FILE* out = csv_on_stdout ? stderr : stdout;
  fmt::print(out, "{}",
             session.json ? SummaryJson(summary).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                          : SummaryText(summary));
  std::fflush(out);
}

Error NoFrames(const RecordingSummary& summary, const Session& session) {
  if (!session.program.empty())
    return Fail(Errc::kUnavailable,
                fmt::format("weir saw no frame of '{0}'; 'weir doctor -- {0}' finds the reason", session.program[0]));
  return Fail(Errc::kUnavailable,
              fmt::format("no frame was shown on vGPU '{}' while it was recorded", summary.vgpu.name));
}

Result<int> Record(const Session& session, const RecordFlags& flags) {
  const bool runs_program = flags.vgpu.empty();
  const ControlClient client = session.client();
  Subject subject;
  WEIR_TRY(subject.vgpu, runs_program ? VgpuForProgram(session, flags) : NamedVgpu(client, flags.vgpu));
  if (runs_program) Warn(subject.vgpu.warnings);
  StopSignals signals;
  const std::int64_t start_ns = platform::NowNs();
  FrameRecorder recorder(client, subject.vgpu, start_ns);
  WEIR_TRY_STATUS(recorder.Begin(flags.paths));
  if (runs_program) {
    WEIR_TRY(subject.child, StartProgram(session, subject.vgpu));
  }
  Result<std::string> ended_by = RecordUntilItEnds(recorder, subject, signals, InstantFromNs(start_ns), flags.span);
  const std::int64_t until_ns = platform::NowNs();
  const bool program_ended = subject.child && subject.child->Ended();
  Status status = Ok();
  if (!ended_by)
    status = ended_by.error();
  else
    status = TakeLastFrames(recorder, program_ended, until_ns);
  if (subject.child) subject.child->Stop();
  if (Status ended = recorder.End(until_ns); status) status = std::move(ended);
  const RecordingSummary summary =
      recorder.Summary(ended_by ? *ended_by : std::string("error"), nanoseconds(until_ns - start_ns));
  PrintSummary(summary, session, flags.paths.csv == "-");
  WEIR_TRY_STATUS(status);
  if (summary.ended_by == "limit") Say("the recording has reached the largest size and was ended");
  if (program_ended && subject.child->ExitCode() != 0) return subject.child->ExitCode();
  if (signals.Stopped() && !signals.StoppedByUser()) return signals.ExitCode();
  if (summary.figures.frames == 0) return NoFrames(summary, session);
  return 0;
}

constexpr const char* kRecordExamples =
    "  weir record game --seconds 30                          # figures of a vGPU's next 30 s\n"
    "  weir record game --out game.csv                        # until Ctrl-C, each frame in PresentMon's columns\n"
    "  weir record --seconds 10 --out - -- glmark2 -b terrain | head\n"
    "  weir record --fps 60 --trace gears.wtrace -- glxgears  # to replay the demand on other devices\n"
    "\n"
    "FILES\n"
    "  docs/record.md explains the columns of the CSV, docs/protocol/trace.md the format of a trace. What can't "
    "be\n"
    "  known from within a program, such as when a frame was displayed, is NA.\n"
    "\n"
    "EXIT CODES\n"
    "  0 when frames were recorded; the program's own when it failed; 8 when there was no frame; 3 no such vGPU or\n"
    "  program; 7 when the disk is full; the others of 'weir --help'. Whatever the end, the files hold what came "
    "before.\n";

}  // namespace

Command AddRecord(Command app, Session& session) {
  auto flags = std::make_shared<RecordFlags>();
  const Command command =
      AddCommand(app, "record", "Record frames of a vGPU or of a program, and sum them up", kRecordExamples, session);
  command.SetUsage("weir record [OPTIONS] VGPU | -- PROGRAM [ARGUMENTS...]");
  command.Add("vgpu", "VGPU", flags->vgpu, "The vGPU to record; or a program after --, on a new vGPU");
  command.AddParsed("--seconds", "N", flags->span, ParseDuration,
                    "How long, of a program from its first frame (default: until the program ends, or Ctrl-C)");
  command.Add("--out", "FILE", flags->paths.csv, "Write each frame as comma-separated values; -: to stdout");
  command.Add("--trace", "FILE", flags->paths.trace, "Write a trace, from which the demand can be replayed");
  command.Add("--name", "NAME", flags->name, "The program's vGPU (default: the program's name, with a process id)");
  AddSettingOptions(command, flags->settings, /*creates=*/true);
  command.WhenGiven([flags, &session] {
    if (flags->vgpu.empty() == session.program.empty()) RejectUsage("VGPU: give either a vGPU or, after --, a program");
    if (!flags->vgpu.empty() && (flags->settings.Any() || !flags->name.empty()))
      RejectUsage(
          fmt::format("VGPU: '{0}' has its own settings; change them with 'weir vgpu set {0} ...'", flags->vgpu));
    if (flags->paths.trace == "-") RejectUsage("--trace: a trace is not text; give a file");
    session.action = [flags, &session] { return Record(session, *flags); };
  });
  return command;
}

}  // namespace weir::cli
