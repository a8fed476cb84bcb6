// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/simulation.h"
#include "tools/sim/frame_costs.h"

namespace weir::cli {
namespace {

constexpr int kRounds = 12;               // upper bound of the rounds of a fit
constexpr double kTolerance = 0.005;      // of a rate
constexpr Duration kMargin = seconds(5);  // played before and after the counted time; policies and meters settle
constexpr Duration kAccountEvery = milliseconds(100);  // the interval of weir-gpu-account
constexpr int kFramesAhead = 2;                        // as in the emulated GL driver
constexpr std::uint64_t kGpuPresentMostNs = 1'000'000;

Duration Scaled(std::uint64_t ns, double factor) {
  return Duration{static_cast<std::int64_t>(static_cast<double>(ns) * factor)};
}

/// The part of a present that is the program's own time. For a software renderer, this is the time beyond the device's
/// cost. A GPU's present may also wait until the device has completed earlier frames, which depends on other programs;
/// the shortest present of the window is taken as one that did not wait.
std::uint64_t OwnPresentNs(const proto::TraceFrame& frame, Duration cost, bool software, std::uint64_t shortest_ns) {
  const std::uint64_t busy = frame.present_ns + frame.sync_ns;
  const auto cost_ns = static_cast<std::uint64_t>(cost.count());
  if (software) return busy > cost_ns ? busy - cost_ns : 0;
  return std::min({busy, shortest_ns, kGpuPresentMostNs});
}

sim::Meter MeterOf(const proto::Trace& trace) {
  const std::string& meter = trace.processes.front().meter;
  return meter == "timer-query" ? sim::Meter::kSpan : meter == "wall-clock" ? sim::Meter::kCall : sim::Meter::kWork;
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
    replay.costs_.push_back(FrameCosts(trace));
    auto& shortest = replay.shortest_presents_ns_.emplace_back();
    for (const proto::TraceFrame& frame : trace.frames) {
      const auto [at, first] = shortest.try_emplace({frame.process, frame.surface}, frame.present_ns);
      at->second = std::min(at->second, frame.present_ns);
    }
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
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    Recorded& one = all.emplace_back();
    one.vgpu = traces_[i].header.vgpu;
    for (std::size_t k = 0; k < traces_[i].frames.size(); ++k) {
      const proto::TraceFrame& frame = traces_[i].frames[k];
      const double part = PartInside(frame.begin_ns, frame.EndNs(), from_ns, to_ns);
      one.fps += part / span_s;
      one.use += part * SecondsOf(costs_[i][k]) / span_s;
    }
    sum += one.use;
  }
  for (Recorded& one : all) one.share = sum > 0 ? one.use / sum : 0;
  return all;
}

sim::Tenant Replay::TenantOf(std::size_t i) const {
  const proto::Trace& trace = traces_[i];
  const bool software = trace.header.device_kind == "software";
  sim::Tenant tenant;
  tenant.name = fmt::format("{}", i);
  tenant.settings.weight = std::clamp<std::uint32_t>(trace.header.weight, 1, core::kWeightMax);
  tenant.settings.cap = Share{std::clamp<std::uint32_t>(trace.header.cap_ppm, 10'000, Share::kWholePpm)};
  tenant.settings.fps = static_cast<double>(trace.header.fps_milli) * 1e-3;
  tenant.settings.latency = Duration{static_cast<std::int64_t>(trace.header.latency_ns)};
  tenant.finishes = software;  // a software renderer's workers take turns on the CPUs in small slices
  tenant.batch = software ? microseconds(500) : milliseconds(2);
  tenant.queue = software ? 4 : 8;
  if (emulated()) {
    tenant.frames_ahead = kFramesAhead;
    tenant.meter = MeterOf(trace);
  }
  return tenant;
}

void Replay::AddFrames(std::size_t i, std::int64_t from_ns, std::int64_t to_ns,
                       std::map<LoopKey, std::vector<sim::Demand>>& loops) const {
  const proto::Trace& trace = traces_[i];
  const bool software = trace.header.device_kind == "software";
  for (std::size_t k = 0; k < trace.frames.size(); ++k) {
    const proto::TraceFrame& frame = trace.frames[k];
    if (frame.begin_ns < from_ns || frame.begin_ns >= to_ns) continue;
    const LoopKey loop{frame.process, frame.surface};
    const std::uint64_t present_ns =
        OwnPresentNs(frame, costs_[i][k], software, shortest_presents_ns_[i].find(loop)->second);
    loops[loop].push_back(
        {.cpu = Scaled(frame.think_ns, factors_[i]), .gpu = costs_[i][k], .present = Scaled(present_ns, factors_[i])});
  }
}

sim::Tenant Replay::ProgramsFrom(std::size_t i, double part) const {
  std::int64_t from_ns = std::numeric_limits<std::int64_t>::max(), to_ns = 0;
  for (const proto::TraceFrame& frame : traces_[i].frames) {
    from_ns = std::min(from_ns, frame.begin_ns);
    to_ns = std::max(to_ns, frame.EndNs() + 1);
  }
  const auto offset_ns = static_cast<std::int64_t>(static_cast<double>(to_ns - from_ns) * part);
  std::map<LoopKey, std::vector<sim::Demand>> loops;
  AddFrames(i, from_ns + offset_ns, to_ns, loops);
  AddFrames(i, from_ns, from_ns + offset_ns, loops);
  sim::Tenant tenant = TenantOf(i);
  for (auto& [loop, frames] : loops) tenant.recorded.push_back(std::move(frames));
  tenant.processes = static_cast<int>(tenant.recorded.size());
  return tenant;
}

/// The scenario from a margin before `from_ns` to a margin after `to_ns`. Time before the record's beginning is filled
/// with the record's first frames.
sim::Scenario Replay::ScenarioOf(std::int64_t from_ns, std::int64_t to_ns) const {
  sim::Scenario scenario;
  scenario.name = "replay";
  scenario.span = Duration{to_ns - from_ns} + 2 * kMargin;
  sim::Device& device = scenario.devices.front();
  device.name = traces_.front().header.device;
  device.model = device_;
  if (std::ranges::any_of(traces_, [](const proto::Trace& trace) { return !trace.charges.empty(); }))
    device.account = kAccountEvery;
  const std::int64_t begin_ns = from_ns - kMargin.count(), end_ns = to_ns + kMargin.count();
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    std::map<LoopKey, std::vector<sim::Demand>> loops;
    const std::int64_t first_ns = traces_[i].frames.front().begin_ns;
    if (begin_ns < first_ns) AddFrames(i, first_ns, 2 * first_ns - begin_ns, loops);
    AddFrames(i, begin_ns, end_ns, loops);
    sim::Tenant tenant = TenantOf(i);
    for (auto& [loop, frames] : loops) tenant.recorded.push_back(std::move(frames));
    tenant.processes = static_cast<int>(tenant.recorded.size());
    if (tenant.processes > 0) scenario.tenants.push_back(std::move(tenant));
  }
  return scenario;
}

std::vector<Recorded> Replay::PlayPart(std::int64_t from_ns, std::int64_t to_ns, const std::string& policy,
                                       const core::PolicyParams& params) const {
  const sim::Scenario scenario = ScenarioOf(from_ns, to_ns);
  const sim::Run run{.label = policy, .policy = policy, .params = params};
  sim::Simulation simulation(scenario, run, {.seed = 1, .keep_frames = true});
  simulation.RunUntil(scenario.span);
  const sim::RunRecord record = simulation.Take();
  std::vector<Recorded> all;
  double sum = 0;
  const std::int64_t begin_ns = kMargin.count(), end_ns = begin_ns + (to_ns - from_ns);
  const double span_s = static_cast<double>(to_ns - from_ns) * 1e-9;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    Recorded& one = all.emplace_back();
    one.vgpu = traces_[i].header.vgpu;
    for (const sim::TenantRecord& tenant : record.tenants) {
      if (tenant.name != fmt::format("{}", i)) continue;
      for (const sim::FrameRecord& frame : tenant.frames) {
        const double part = PartInside(frame.end_ns - frame.latency_ns, frame.end_ns, begin_ns, end_ns);
        one.fps += part / span_s;
        one.use += part * static_cast<double>(frame.gpu_ns) * 1e-9 / span_s;
      }
    }
    sum += one.use;
  }
  for (Recorded& one : all) one.share = sum > 0 ? one.use / sum : 0;
  return all;
}

/// A rate that the device or a pace bounds does not depend on the program's own time. The factor of such a program
/// would drift, so a factor is changed only if its rate is outside the tolerance. The factors of the best round are
/// kept, which need not be the last one.
void Replay::Calibrate() {
  const std::vector<Recorded> goal = Count(from_ns_, Middle());
  std::vector<double> best = factors_;
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Recorded> shown = PlayPart(from_ns_, Middle(), policy_, params_);
    std::vector<double> next = factors_;
    double off = 0;
    for (std::size_t i = 0; i < goal.size(); ++i) {
      if (goal[i].fps <= 0 || shown[i].fps <= 0) continue;
      const double ratio = shown[i].fps / goal[i].fps;
      off += std::abs(std::log(ratio));
      if (std::abs(ratio - 1) > kTolerance) next[i] = std::clamp(factors_[i] * ratio, kFactorMin, kFactorMax);
    }
    if (off < least) best = factors_, least = off;
    if (next == factors_) break;
    factors_ = next;
  }
  factors_ = best;
}

std::vector<Recorded> Replay::Play(const std::string& policy, const core::PolicyParams& params) const {
  return PlayPart(from_ns_, to_ns_, policy, params);
}
std::vector<Recorded> Replay::PlaySecondHalf() const { return PlayPart(Middle(), to_ns_, policy_, params_); }

}  // namespace weir::cli
