// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "sim/simulation.h"

namespace weir::cli {
namespace {

constexpr int kRounds = 12;  // of the fit
constexpr double kFactorMin = 0.05, kFactorMax = 20;

bool Inside(const proto::TraceFrame& frame, std::int64_t from_ns, std::int64_t to_ns) {
  return frame.begin_ns >= from_ns && frame.EndNs() < to_ns;
}

std::set<std::pair<std::uint32_t, std::uint32_t>> LoopsOf(const proto::Trace& trace) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> loops;
  for (const proto::TraceFrame& frame : trace.frames) loops.emplace(frame.process, frame.surface);
  return loops;
}

/// The program's own time is what it thinks, and of its present what the device did not take.
sim::Demand DemandOf(const proto::TraceFrame& frame, double factor) {
  const auto scaled = [factor](std::uint64_t ns) {
    return Duration{static_cast<std::int64_t>(static_cast<double>(ns) * factor)};
  };
  const std::uint64_t busy = frame.present_ns + frame.sync_ns;
  return {.cpu = scaled(frame.think_ns),
          .gpu = Duration{static_cast<std::int64_t>(frame.gpu_ns)},
          .present = scaled(busy > frame.gpu_ns ? busy - frame.gpu_ns : 0)};
}

}  // namespace

std::string OffText(double model, double record) {
  return record > 0 ? fmt::format("{:+.1f} %", (model / record - 1) * 100) : "-";
}

Result<Replay> Replay::Make(std::vector<proto::Trace> traces) {
  if (traces.empty()) return Fail(Errc::kInvalidArgument, "a replay needs a trace");
  Replay replay;
  replay.from_ns_ = std::numeric_limits<std::int64_t>::min();
  replay.to_ns_ = std::numeric_limits<std::int64_t>::max();
  for (const proto::Trace& trace : traces) {
    if (trace.frames.size() < 20)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("the trace of '{}' has {} frames, and 20 are needed: record it for longer",
                              trace.header.vgpu, trace.frames.size()));
    if (trace.header.device != traces.front().header.device || trace.header.policy != traces.front().header.policy)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("'{}' was recorded on {} under {}, '{}' on {} under {}: not at the same time",
                              traces.front().header.vgpu, traces.front().header.device, traces.front().header.policy,
                              trace.header.vgpu, trace.header.device, trace.header.policy));
    std::int64_t end_ns = 0;
    for (const proto::TraceFrame& frame : trace.frames) end_ns = std::max(end_ns, frame.EndNs());
    replay.from_ns_ = std::max(replay.from_ns_, trace.frames.front().begin_ns);
    replay.to_ns_ = std::min(replay.to_ns_, end_ns);
  }
  if (replay.span() < seconds(2))
    return Fail(Errc::kInvalidArgument, "the traces have less than 2 s in common; record them at the same time");
  replay.policy_ = traces.front().header.policy;
  for (const auto& [name, value] : traces.front().header.policy_params) replay.params_[name] = value;
  replay.traces_ = std::move(traces);
  replay.factors_.assign(replay.traces_.size(), 1.0);
  replay.recorded_ = replay.Count(replay.from_ns_, replay.to_ns_);
  for (std::size_t i = 0; i < replay.recorded_.size(); ++i)
    if (replay.recorded_[i].fps <= 0)
      return Fail(Errc::kInvalidArgument, fmt::format("'{}' shows no frame in the time that the traces have in common",
                                                      replay.recorded_[i].vgpu));
  return replay;
}

std::vector<Recorded> Replay::Count(std::int64_t from_ns, std::int64_t to_ns) const {
  std::vector<Recorded> all;
  double sum = 0;
  const double span_s = static_cast<double>(to_ns - from_ns) * 1e-9;
  for (const proto::Trace& trace : traces_) {
    Recorded& one = all.emplace_back();
    one.vgpu = trace.header.vgpu;
    for (const proto::TraceFrame& frame : trace.frames) {
      if (!Inside(frame, from_ns, to_ns)) continue;
      one.fps += 1 / span_s;
      one.use += static_cast<double>(frame.gpu_ns) * 1e-9 / span_s;
    }
    sum += one.use;
  }
  for (Recorded& one : all) one.share = sum > 0 ? one.use / sum : 0;
  return all;
}

sim::Tenant Replay::TenantOf(std::size_t i, std::int64_t from_ns, std::int64_t to_ns, std::int64_t start_ns) const {
  const proto::Trace& trace = traces_[i];
  const bool software = trace.header.device_kind == "software";
  sim::Tenant tenant;
  tenant.name = fmt::format("{}", i);
  tenant.settings.weight = std::clamp<std::uint32_t>(trace.header.weight, 1, core::kWeightMax);
  tenant.settings.cap = Share{std::clamp<std::uint32_t>(trace.header.cap_ppm, 10'000, Share::kWholePpm)};
  tenant.settings.fps = static_cast<double>(trace.header.fps_milli) * 1e-3;
  tenant.settings.latency = Duration{static_cast<std::int64_t>(trace.header.latency_ns)};
  tenant.finishes = software;  // its workers take turns on the CPUs in small slices
  tenant.batch = software ? microseconds(500) : milliseconds(2);
  tenant.queue = software ? 4 : 8;
  for (const auto& loop : LoopsOf(trace)) {
    std::vector<sim::Demand> frames;
    for (const bool later : {true, false})
      for (const proto::TraceFrame& frame : trace.frames)
        if (std::pair(frame.process, frame.surface) == loop && Inside(frame, from_ns, to_ns) &&
            (frame.begin_ns >= start_ns) == later)
          frames.push_back(DemandOf(frame, factors_[i]));
    if (!frames.empty()) tenant.recorded.push_back(std::move(frames));
  }
  tenant.processes = static_cast<int>(tenant.recorded.size());
  return tenant;
}

sim::Tenant Replay::ProgramsFrom(std::size_t i, double part) const {
  std::int64_t from_ns = std::numeric_limits<std::int64_t>::max(), to_ns = 0;
  for (const proto::TraceFrame& frame : traces_[i].frames) {
    from_ns = std::min(from_ns, frame.begin_ns);
    to_ns = std::max(to_ns, frame.EndNs() + 1);
  }
  const auto offset_ns = static_cast<std::int64_t>(static_cast<double>(to_ns - from_ns) * part);
  return TenantOf(i, from_ns, to_ns, from_ns + offset_ns);
}

sim::Scenario Replay::ScenarioOf(std::int64_t from_ns, std::int64_t to_ns) const {
  sim::Scenario scenario;
  scenario.name = "replay";
  scenario.span = Duration{to_ns - from_ns};
  scenario.devices.front().name = traces_.front().header.device;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    sim::Tenant tenant = TenantOf(i, from_ns, to_ns, from_ns);
    if (tenant.processes > 0) scenario.tenants.push_back(std::move(tenant));
  }
  return scenario;
}

std::vector<Recorded> Replay::PlayPart(std::int64_t from_ns, std::int64_t to_ns, const std::string& policy,
                                       const core::PolicyParams& params) const {
  const sim::Scenario scenario = ScenarioOf(from_ns, to_ns);
  const sim::Run run{.label = policy, .policy = policy, .params = params};
  sim::Simulation simulation(scenario, run, {.seed = 1, .keep_frames = false});
  simulation.RunUntil(scenario.span);
  const sim::RunRecord record = simulation.Take();
  std::vector<Recorded> all;
  double sum = 0;
  const double span_s = SecondsOf(scenario.span);
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    Recorded& one = all.emplace_back();
    one.vgpu = traces_[i].header.vgpu;
    for (const sim::TenantRecord& tenant : record.tenants) {
      if (tenant.name != fmt::format("{}", i)) continue;
      one.fps += static_cast<double>(tenant.frame_count) / span_s;
      one.use += static_cast<double>(tenant.gpu_ns) * 1e-9 / span_s;
    }
    sum += one.use;
  }
  for (Recorded& one : all) one.share = sum > 0 ? one.use / sum : 0;
  return all;
}

void Replay::Calibrate() {
  const std::vector<Recorded> goal = Count(from_ns_, Middle());
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Recorded> shown = PlayPart(from_ns_, Middle(), policy_, params_);
    for (std::size_t i = 0; i < goal.size(); ++i)
      if (goal[i].fps > 0 && shown[i].fps > 0)
        factors_[i] = std::clamp(factors_[i] * shown[i].fps / goal[i].fps, kFactorMin, kFactorMax);
  }
}

std::vector<Recorded> Replay::Play(const std::string& policy, const core::PolicyParams& params) const {
  return PlayPart(from_ns_, to_ns_, policy, params);
}
std::vector<Recorded> Replay::PlaySecondHalf() const { return PlayPart(Middle(), to_ns_, policy_, params_); }

}  // namespace weir::cli
