// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/prng.h"

namespace weir::sim {
namespace {

core::RunId RunOf(std::uint32_t application) { return core::RunId{application + std::uint64_t{1}}; }
std::uint32_t ApplicationOf(core::RunId run) { return static_cast<std::uint32_t>(run.value - 1); }
std::uint32_t PlaceOf(DeviceId device) { return static_cast<std::uint32_t>(device.value - 1); }

double CacheOf(const ClusterDevices& device) { return static_cast<double>(device.cache.count); }

/// The world's kernels, with the blocks and threads that the run chooses.
std::vector<ClusterKernel> KernelsOf(const ClusterWorld& world, const ClusterRun& run) {
  std::vector<ClusterKernel> kernels = world.kernels;
  for (ClusterKernel& kernel : kernels) {
    if (run.blocks > 0) kernel.blocks = run.blocks;
    if (run.threads > 0) kernel.threads = run.threads;
  }
  return kernels;
}

/// The time in seconds of a kernel that runs alone.
double AloneOf(const KernelCost& cost, const ClusterDevices& device, const MeasuredPairs& measured) {
  return measured.empty() ? cost.seconds / SpeedsOf(std::span(&cost, 1), CacheOf(device)).front() : cost.seconds;
}

/// The kernels in the order in which they are submitted.
std::vector<std::uint32_t> SequenceOf(const ClusterWorld& world, const ClusterRun& run, std::uint64_t seed) {
  std::vector<std::uint32_t> turn;
  for (const std::string& name : run.kernels)
    turn.push_back(static_cast<std::uint32_t>(std::ranges::find(world.kernels, name, &ClusterKernel::name) -
                                              world.kernels.begin()));
  if (turn.empty())
    for (std::uint32_t i = 0; i < world.kernels.size(); ++i) turn.push_back(i);
  std::vector<std::uint32_t> sequence;
  for (std::uint32_t i = 0; i < run.runs; ++i) sequence.push_back(turn[i % turn.size()]);
  if (run.shuffle == 0) return sequence;
  Prng prng(seed * 1'000'003 + run.shuffle);
  for (std::size_t i = sequence.size(); i > 1; --i)
    std::swap(sequence[i - 1], sequence[static_cast<std::size_t>(prng.Next() % i)]);
  return sequence;
}

}  // namespace

Result<core::InterferenceModel> ProfileAll(std::span<const ClusterKernel> kernels, const ClusterWorld& world,
                                           const core::PolicyParams& params) {
  const ClusterDevices& device = world.devices;
  const MeasuredPairs measured(world);
  std::vector<core::SoloRun> solos;
  std::vector<core::PairRun> pairs;
  std::vector<KernelCost> costs;
  for (const ClusterKernel& kernel : kernels) {
    costs.push_back(CostOf(kernel, device));
    solos.push_back({kernel.name, MeasuredAlone(kernel, device), AloneOf(costs.back(), device, measured)});
  }
  for (std::uint32_t a = 0; a < kernels.size(); ++a)
    for (std::uint32_t b = a; b < kernels.size(); ++b) {
      const std::vector<double> speeds = measured.empty() ? SpeedsOf(std::array{costs[a], costs[b]}, CacheOf(device))
                                                          : measured.SpeedsOf(std::array{a, b});
      pairs.push_back({kernels[a].name, kernels[b].name, costs[a].seconds / speeds[0], costs[b].seconds / speeds[1]});
    }
  return core::Fit(solos, pairs, CapacityFor(device), params);
}

ClusterSimulation::ClusterSimulation(const Scenario& scenario, const Run& run, std::uint64_t seed, bool keep_frames)
    : scenario_(scenario),
      world_(*scenario.cluster),
      run_(run.cluster),
      keep_frames_(keep_frames),
      kernels_(KernelsOf(world_, run_)),
      pairs_(world_),
      sequence_(SequenceOf(world_, run_, seed)),
      queue_(core::MakePlacement(run_.placement, run_.params).value()),
      devices_(world_.devices.count),
      now_(InstantFromNs(0)) {
  out_.label = run.label;
  out_.digest = 14695981039346656037ULL;  // FNV-1a's
  for (const ClusterKernel& kernel : kernels_) {
    costs_.push_back(CostOf(kernel, world_.devices));
    needs_.push_back(MeasuredAlone(kernel, world_.devices));
    alone_s_.push_back(AloneOf(costs_.back(), world_.devices, pairs_));
    out_.tenants.emplace_back().name = kernel.name;
  }
  Profile();
  for (std::uint32_t i = 0; i < world_.devices.count; ++i)
    WEIR_CHECK(
        queue_.AddDevice(now_, DeviceId{i + std::uint64_t{1}}, {}, CapacityFor(world_.devices), actions_).has_value());
  applications_.reserve(sequence_.size());
  heap_.Push(now_, EventKind::kArrive, 0);
}

void ClusterSimulation::Profile() {
  core::InterferenceModel* model = queue_.placement().model();
  if (model == nullptr || !run_.profiled) return;
  *model = ProfileAll(kernels_, world_, run_.params).value();
}

void ClusterSimulation::RunUntil(Duration at) {
  const Instant until = InstantFromNs(0) + at;
  while (!heap_.empty() && heap_.Next().at_ns <= NsOf(until)) {
    const Event event = heap_.Pop();
    now_ = InstantFromNs(event.at_ns);
    ++out_.events;
    switch (event.kind) {
      case EventKind::kArrive: SubmitNext(); break;
      case EventKind::kLaunch: Launch(event.subject); break;
      case EventKind::kKernelDone:
        if (devices_[event.subject].stamp == event.stamp) FinishKernels(event.subject);
        break;
      default: break;  // events of the other simulations
    }
  }
}

void ClusterSimulation::Note(std::uint64_t what) {
  ++out_.actions;
  for (int byte = 0; byte < 8; ++byte) out_.digest = (out_.digest ^ ((what >> (8 * byte)) & 0xFF)) * 1099511628211ULL;
}

void ClusterSimulation::SubmitNext() {
  const auto application = static_cast<std::uint32_t>(applications_.size());
  Application& one = applications_.emplace_back();
  one.kernel = sequence_[application];
  one.record.submitted_ns = NsOf(now_);
  if (application + 1 < sequence_.size()) heap_.Push(now_ + run_.gap, EventKind::kArrive, 0);
  const Status submitted = queue_.Submit(now_, RunOf(application), {.need = needs_[one.kernel]}, actions_);
  if (!submitted) out_.violations.push_back(submitted.error().message);
  Carry();
}

void ClusterSimulation::Carry() {
  for (const core::RunAction& action : actions_) {
    const std::uint32_t application = ApplicationOf(action.run);
    Application& one = applications_[application];
    const ClusterKernel& kernel = kernels_[one.kernel];
    if (action.kind == core::RunAction::Kind::kRefuse) {
      out_.violations.push_back(fmt::format("{} is {}", kernel.name, Words(action.choice)));
      continue;
    }
    one.record.device = PlaceOf(action.choice.device);
    one.record.started_ns = NsOf(now_);
    Device& device = devices_[one.record.device];
    device.used += kernel.memory.count;
    if (++device.placed > world_.devices.runs_max || device.used > world_.devices.memory.count)
      out_.violations.push_back(
          fmt::format("device {} holds {} runs with {} MiB", one.record.device + 1, device.placed, device.used >> 20));
    Note(std::uint64_t{application} << 32 | one.record.device);
    const Duration context = run_.context_each ? world_.devices.context : Duration{0};
    heap_.Push(now_ + context + kernel.host, EventKind::kLaunch, application);
  }
  actions_.clear();
}

/// Adds up the work that the device's kernels have done since its speeds were last computed.
void ClusterSimulation::Advance(Device& device) {
  const Duration passed = now_ - device.at;
  device.at = now_;
  if (passed <= Duration{0} || device.running.empty()) return;
  device.busy_ns += passed.count();
  const double passed_s = SecondsOf(passed);
  core::CompanyNow all;
  for (const std::uint32_t application : device.running) all.Add(needs_[applications_[application].kernel]);
  for (std::size_t k = 0; k < device.running.size(); ++k) {
    Application& one = applications_[device.running[k]];
    one.left_s -= passed_s * device.speeds[k];
    out_.processing_s += passed_s * device.speeds[k] * costs_[one.kernel].threads;
    one.company.Pass(passed_s, needs_[one.kernel], all);
  }
}

/// Computes new speeds, after a kernel has begun or ended on the device, and when the next kernel will be done.
void ClusterSimulation::Retune(std::uint32_t index) {
  Device& device = devices_[index];
  ++device.stamp;
  if (device.running.empty()) return;
  if (pairs_.empty()) {
    together_.clear();
    for (const std::uint32_t application : device.running)
      together_.push_back(costs_[applications_[application].kernel]);
    device.speeds = SpeedsOf(together_, CacheOf(world_.devices));
  } else {
    numbers_.clear();
    for (const std::uint32_t application : device.running) numbers_.push_back(applications_[application].kernel);
    device.speeds = pairs_.SpeedsOf(numbers_);
  }
  double next_s = applications_[device.running[0]].left_s / device.speeds[0];
  for (std::size_t k = 1; k < device.running.size(); ++k)
    next_s = std::min(next_s, applications_[device.running[k]].left_s / device.speeds[k]);
  heap_.Push(now_ + FromSeconds(std::max(next_s, 0.0)) + nanoseconds(1), EventKind::kKernelDone, index, device.stamp);
}

void ClusterSimulation::Launch(std::uint32_t application) {
  Application& one = applications_[application];
  Device& device = devices_[one.record.device];
  Advance(device);
  one.left_s = costs_[one.kernel].seconds;
  one.launched = now_;
  device.running.push_back(application);
  Retune(one.record.device);
}

void ClusterSimulation::FinishKernels(std::uint32_t index) {
  constexpr double kCrumb_s = 2e-9;  // for rounding: a kernel with less work left is done
  Device& device = devices_[index];
  Advance(device);
  std::vector<std::uint32_t> done;
  std::erase_if(device.running, [&](std::uint32_t application) {
    if (applications_[application].left_s > kCrumb_s) return false;
    done.push_back(application);
    return true;
  });
  Retune(index);
  for (const std::uint32_t application : done) {
    Application& one = applications_[application];
    const Duration took = now_ - one.launched;
    one.record.end_ns = NsOf(now_);
    one.record.kernel_ns = took.count();
    one.record.alone_ns = FromSeconds(alone_s_[one.kernel]).count();
    --device.placed;
    device.used -= kernels_[one.kernel].memory.count;
    Note(std::uint64_t{application} << 32 | 0xFFFFFFFFULL);
    core::RunSeen seen;
    if (run_.learns && took > Duration{0}) seen = one.company.Seen(SecondsOf(took) / alone_s_[one.kernel]);
    WEIR_CHECK(queue_.Done(now_, RunOf(application), seen, actions_).has_value());
  }
  Carry();
}

RunRecord ClusterSimulation::Take() {
  RunRecord out = out_;
  out.span_ns = scenario_.span.count();
  std::size_t left = sequence_.size() - applications_.size();
  for (const Application& one : applications_) {
    TenantRecord& tenant = out.tenants[one.kernel];
    if (one.record.end_ns < 0) {
      ++left;
      continue;
    }
    tenant.kernel_runs.push_back(one.record);
    tenant.gpu_ns += one.record.kernel_ns;
    ++tenant.frame_count;
    if (keep_frames_)
      tenant.frames.push_back({.end_ns = one.record.end_ns,
                               .latency_ns = one.record.end_ns - one.record.submitted_ns,
                               .gpu_ns = one.record.kernel_ns,
                               .wait_ns = one.record.started_ns - one.record.submitted_ns});
  }
  if (left > 0)
    out.violations.push_back(fmt::format("{} runs are not done after {:g} s", left, SecondsOf(scenario_.span)));
  for (const Device& device : devices_) out.device_busy_ns.push_back(device.busy_ns);
  return out;
}

}  // namespace weir::sim
