// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/common/session.h"
#include "cli/common/terminal.h"
#include "cli/common/text_units.h"
#include "platform/clock.h"
#include "tools/demo/facts.h"
#include "tools/demo/live_view.h"
#include "tools/demo/recorder.h"
#include "tools/demo/report.h"
#include "tools/demo/stage.h"
#include "tools/demo/summary.h"

namespace weir::cli {
namespace {

constexpr Duration kDemoPollEvery = milliseconds(250);
constexpr Duration kWarmUp = milliseconds(1500);     // not counted: policies' windows and programs' queues settle
constexpr Duration kAfterwards = milliseconds(300);  // frames in progress at a phase's end are still reported

/// One demo, from the first frame to the last.
class Performance {
 public:
  Performance(const DemoOptions& options, Stage& stage, StopSignals& signals, std::vector<std::string> devices,
              const std::vector<Workload>& workloads)
      : options_(options),
        stage_(stage),
        signals_(signals),
        devices_(std::move(devices)),
        recorder_(stage.client(), workloads),
        view_(options.json ? stderr : stdout) {}

  Result<Phase> Play(const std::string& policy) {
    const nlohmann::json body{{"policy", policy}, {"params", nlohmann::json::object()}};
    for (const std::string& device : devices_)
      WEIR_TRY_STATUS(stage_.client().Put("/v1/devices/" + PercentEncode(device) + "/policy", body));
    WEIR_TRY_STATUS(PollFor(kWarmUp, policy, Part::kWarmUp));
    WEIR_TRY_STATUS(recorder_.Begin(policy));
    WEIR_TRY_STATUS(PollFor(options_.phase, policy, Part::kMeasuring));
    WEIR_TRY_STATUS(recorder_.End());
    WEIR_TRY_STATUS(PollFor(kAfterwards, policy, Part::kFinishing));
    view_.FinishPhase();
    return recorder_.Take();
  }

 private:
  Status PollFor(Duration span, const std::string& policy, Part part) {
    const Instant begin = platform::Now();
    for (Instant next = begin; platform::Now() < begin + span;) {
      WEIR_TRY_STATUS(stage_.AllAlive());
      WEIR_TRY(const Snapshot snapshot, recorder_.Poll());
      view_.Show(snapshot, policy, part, platform::Now() - begin, span);
      next = std::min(next + kDemoPollEvery, begin + span);
      if (signals_.WaitFor(std::max(next - platform::Now(), Duration(1))))
        return Fail(Errc::kUnavailable, "the demo was stopped");
    }
    return stage_.AllAlive();
  }

  const DemoOptions& options_;
  Stage& stage_;
  StopSignals& signals_;
  const std::vector<std::string> devices_;
  Recorder recorder_;
  LiveView view_;
};

/// Reports what went wrong in a demo that ran to its end.
Status CheckFramesSeen(const DemoResult& result) {
  for (const Phase& phase : result.phases)
    for (std::size_t i = 0; i < phase.programs.size(); ++i)
      if (phase.programs[i].frames.empty())
        return Fail(Errc::kUnavailable,
                    fmt::format("{} showed no frame under the policy {}", result.workloads[i].name, phase.policy));
  return Ok();
}

Status WriteReport(const DemoOptions& options, const DemoResult& result) {
  if (options.report.empty()) return Ok();
  std::ofstream file(options.report);  // mode by umask: the report is meant to be shared
  file << RenderReport(result);
  file.close();
  if (file) return Ok();
  return Fail(Errc::kIo, fmt::format("cannot write the report {}: {}; give another file with --report", options.report,
                                     std::strerror(errno)));
}

void PrintIntroduction(const DemoOptions& options, const DemoResult& result, std::size_t devices,
                       const std::string& display) {
  std::FILE* out = options.json ? stderr : stdout;
  const std::vector<Workload>& workloads = result.workloads;
  fmt::print(out, "{} unmodified programs share {}{}, {} under each policy ({}):\n",
             workloads.size() == 3 ? "Three" : std::to_string(workloads.size()),
             devices == 1 ? "one device" : std::to_string(devices) + " devices", result.Mark(),
             FormatDuration(options.phase), display);
  for (const Workload& workload : workloads)
    fmt::print(out, "  {:<10} weight {:<3} {}{}\n", workload.name, workload.weight,
               devices == 1 ? "" : workload.device + ": ", CommandText(workload));
  fmt::print(out, "  promised rate: {}\n\n", LatenessText(workloads));
}

void PrintOutcome(const DemoOptions& options, const DemoResult& result) {
  if (options.json) return PrintJson(SummaryJson(result));
  if (result.emulated)
    fmt::print("All figures are emulated: programs and scheduling are real, the timing of the GPUs is modelled.\n\n");
  fmt::print(
      "{}\nPROMISE and GOT: part of the GPU time that all programs of the device used; DEVICE: part of what the device "
      "could give. FPS: "
      "got/promised. P99: nearest rank over all frames. WAIT: of wall time, at the gate. proportional-share keeps "
      "shares, "
      "sla-aware and hybrid keep rates.\n"
      "LATE: {}.\n",
      RenderSummary(result, StdoutTakesColor()), LatenessText(result.workloads));
  if (!options.report.empty()) fmt::print("report: {}\n", options.report);
}

}  // namespace

Result<int> RunDemo(const DemoOptions& options) {
  DemoResult result;
  StopSignals signals;
  WEIR_TRY_STATUS(CheckPrograms(DefaultWorkloads(), NeedsOwnDisplay(options)));
  WEIR_TRY(const auto stage, Stage::Open(options));
  if (!stage->dashboard().empty()) {
    // On stderr, so that --json has only the result on stdout.
    fmt::print(stderr, "watch it in a browser: {}\n", stage->dashboard());
    std::fflush(stderr);
  }
  WEIR_TRY(const auto device_reply, stage->client().Get("/v1/devices"));
  WEIR_TRY(const auto devices, DevicesFromJson(device_reply));
  std::vector<std::string> names;
  names.reserve(devices.size());
  for (const DeviceView& device : devices) names.push_back(device.name);
  result.emulated = std::ranges::any_of(devices, [](const DeviceView& device) { return device.kind == "emulated"; });
  result.workloads = result.emulated ? EmulatedWorkloads(names) : DefaultWorkloads();
  if (!result.emulated) names.resize(1);
  const Status started = stage->Start(result.workloads, signals);
  if (signals.Stopped()) return signals.ExitCode();
  if (!started) return started.error();
  PrintIntroduction(options, result, names.size(), stage->display());
  Performance performance(options, *stage, signals, names, result.workloads);
  WEIR_TRY(result.facts, CollectFacts(stage->client(), stage->display()));
  for (const std::string& policy : options.policies) {
    auto phase = performance.Play(policy);
    if (signals.Stopped()) return signals.ExitCode();
    if (!phase) return std::move(phase).error();
    result.phases.push_back(*std::move(phase));
  }
  WEIR_TRY_STATUS(WriteReport(options, result));
  PrintOutcome(options, result);
  WEIR_TRY_STATUS(CheckFramesSeen(result));
  return 0;
}

}  // namespace weir::cli
