// SPDX-License-Identifier: Apache-2.0
#include "tools/profile/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "modules/run_json.h"
#include "platform/clock.h"

namespace weir::cli {
namespace {

using modules::KernelProfile;
using modules::ListOf;
using modules::NumberOf;
using modules::ProfiledKernel;
using modules::RunTally;
using nlohmann::json;

constexpr int kLookMs = 250;  // time between two checks whether the user wants to end
constexpr Duration kAnswerWithin = seconds(30);
constexpr Duration kStartWithin = seconds(30);  // a host that has ended is restarted in less

Error Interrupted() { return Fail(Errc::kUnavailable, "it was interrupted"); }

Error ErrorOfFailedRun(const json& run) {
  const Error why = modules::ErrorOfRun(run);
  const auto found = run.find("error");
  return Fail(why.code, found != run.end() && found->is_object() ? modules::TextOf(*found, "message") : why.message);
}

std::string MillisecondsText(double seconds) { return fmt::format("{:.4g} ms", seconds * 1e3); }

}  // namespace

HeldRun::~HeldRun() { (void)client_.Ask("DELETE", target_, "", kAnswerWithin); }

void Profiler::SayStep(const std::string& words) { say_(fmt::format("[{}/{}] {}", ++step_, steps_, words)); }

void Profiler::LeaveOut(const std::string& words) {
  say_("left out: " + words);
  out_.left_out.push_back(words);
}

Status Profiler::ChooseDevice(const std::string& wanted) {
  WEIR_TRY(const json reply, client_.Ask("GET", "/v1/devices"));
  const json devices = ListOf(reply, "devices");
  if (devices.empty())
    return Fail(Errc::kUnavailable,
                "no device is available: check that the vGPU of 'weir serve --modules' exists and its driver works");
  std::string names;
  for (const json& device : devices) {
    const std::string name = modules::TextOf(device, "name");
    names += (names.empty() ? "" : ", ") + name;
    if (!wanted.empty() && name != wanted) continue;
    if (NumberOf(device, "running") > 0)
      return Fail(Errc::kBusy,
                  fmt::format("other runs are on {} now: measure when it is idle, or on another --device", name));
    out_.profile.device = name;
    out_.profile.model = modules::TextOf(device, "model");
    WEIR_TRY(out_.profile.capacity, modules::CapacityFrom(device));
    return Ok();
  }
  return Fail(Errc::kNotFound, fmt::format("no device '{}' here; known: {}", wanted, names));
}

Status Profiler::ChooseKernels(const ProfileOrder& order) {
  WEIR_TRY(const json reply, client_.Ask("GET", "/v1/modules"));
  const json registered = ListOf(reply, "modules");
  std::vector<modules::KernelWork> works = order.works;
  std::string names;
  for (const json& module : registered)
    for (const json& kernel : ListOf(module, "kernels")) {
      const modules::KernelWork work{modules::TextOf(module, "module"), modules::TextOf(kernel, "name"), ""};
      names += (names.empty() ? "" : ", ") + TextOf(work);
      if (order.all) works.push_back(work);
    }
  if (works.empty()) return Fail(Errc::kNotFound, "no module is registered here; use 'weir module register NAME FILE'");
  if (works.size() > KernelProfile::kKernelsMax)
    return Fail(Errc::kInvalidArgument, fmt::format("{} kernels are more than the {} of one profile: name fewer",
                                                    works.size(), KernelProfile::kKernelsMax));
  for (const modules::KernelWork& work : works) {
    ProfiledKernel profiled{.work = work};
    for (const json& module : registered)
      for (const json& kernel : ListOf(module, "kernels")) {
        if (modules::TextOf(module, "module") != work.module || modules::TextOf(kernel, "name") != work.kernel)
          continue;
        profiled.blob = modules::TextOf(module, "blob");
        if (kernel.contains("need")) {
          WEIR_TRY(profiled.need, modules::NeedFrom(kernel["need"]));
        }
      }
    if (profiled.blob.empty())
      return Fail(Errc::kNotFound, fmt::format("no kernel '{}/{}' is registered; known: {}", work.module, work.kernel,
                                               names.empty() ? "none" : names));
    if (std::ranges::find(out_.profile.kernels, work, &ProfiledKernel::work) != out_.profile.kernels.end())
      return Fail(Errc::kInvalidArgument, fmt::format("'{}' is named twice", TextOf(work)));
    out_.profile.kernels.push_back(std::move(profiled));
  }
  return Ok();
}

Result<json> Profiler::RunOnce(const ProfiledKernel& kernel, const std::atomic<bool>& over,
                               std::unique_ptr<HeldRun>& held, bool measure) {
  WEIR_TRY(const std::string id, modules::DrawRunId());
  json body{{"module", kernel.work.module},  {"blob", kernel.blob},
            {"kernel", kernel.work.kernel},  {"arguments", kernel.work.arguments},
            {"device", out_.profile.device}, {"seconds_max", SecondsOf(order_.time_max)}};
  // Once its time alone is known, the kernel's runs beside others also teach the service's placement.
  if (kernel.alone_s > 0) body["need"] = modules::NeedOf(kernel);
  if (measure) body["measure"] = true;
  const std::string target = "/v1/runs/" + id;
  auto handed_in = std::make_unique<HeldRun>(client_, target);
  const Instant deadline = platform::Now() + kStartWithin;
  WEIR_TRY(json run, client_.Ask("PUT", target, body.dump(-1, ' ', false, json::error_handler_t::replace)));
  held = std::move(handed_in);
  while (!modules::IsOver(run)) {
    if (stopping_ || over) return Interrupted();
    if (modules::TextOf(run, "state") == "waiting" && platform::Now() >= deadline)
      return Fail(Errc::kUnavailable,
                  fmt::format("it has waited {:.0f} s for {}: check that the device's host runs and has room",
                              SecondsOf(kStartWithin), out_.profile.device));
    WEIR_TRY(run, client_.Ask("GET", fmt::format("{}?wait_ms={}", target, kLookMs), "", kAnswerWithin));
  }
  if (modules::TextOf(run, "state") != "done") return ErrorOfFailedRun(run);
  return run;
}

/// Measures the loads in a separate run, because counting takes time. If the host cannot count all loads, the declared
/// loads stay.
Status Profiler::MeasureLoads(ProfiledKernel& kernel, std::unique_ptr<HeldRun>& held) {
  WEIR_TRY(const json run, RunOnce(kernel, stopping_, held, /*measure=*/true));
  const auto measured = run.find("measured");
  if (measured == run.end() || NumberOf(run, "ran_beside") > RunTally::kAloneWithin) return Ok();
  WEIR_TRY(kernel.need.loads, modules::LoadsIn(*measured));
  kernel.loads_from = modules::LoadsFrom::kMeasured;
  return Ok();
}

Status Profiler::MeasureAlone(ProfiledKernel& kernel) {
  const auto failed = [&](const Error& why) {
    return Fail(why.code, fmt::format("'{}' alone: {}", TextOf(kernel.work), why.message));
  };
  // The first run builds the kernel's program and the data that it keeps in the context.
  std::unique_ptr<HeldRun> held;
  if (const auto warm = RunOnce(kernel, stopping_, held); !warm) return failed(warm.error());
  if (!order_.declared)
    if (const Status measured = MeasureLoads(kernel, held); !measured) return failed(measured.error());
  RunTally tally(RunTally::Company::kNone, order_.rounds);
  while (!tally.settled()) {
    const auto run = RunOnce(kernel, stopping_, held);
    if (!run) return failed(run.error());
    if (NumberOf(*run, "attempt") > 1)
      tally.AddSpoilt();
    else
      tally.Add(NumberOf(*run, "seconds"), NumberOf(*run, "ran_beside"));
  }
  const auto outcome = tally.Take();
  if (!outcome) return failed(outcome.error());
  kernel.alone_s = outcome->seconds;
  kernel.runs = outcome->runs;
  return Ok();
}

void Profiler::RepeatBeside(Side& own, const Side& other, std::atomic<bool>& over) {
  while (!over && !(own.settled && other.settled)) {
    const auto run = RunOnce(own.kernel, over, own.held);
    if (!run) {
      if (!over) own.outcome = run.error();
      over = true;
      return;
    }
    // A run that ended after the last required one of the other side ran alone.
    if (own.settled && other.settled) return;
    if (NumberOf(*run, "attempt") > 1)
      own.tally.AddSpoilt();
    else
      own.tally.Add(NumberOf(*run, "seconds"), NumberOf(*run, "ran_beside"));
    own.settled = own.tally.settled();
  }
}

Status Profiler::MeasurePair(std::size_t first, std::size_t second) {
  const std::vector<ProfiledKernel>& kernels = out_.profile.kernels;
  Side one{.kernel = kernels[first], .tally = {RunTally::Company::kOne, order_.rounds}};
  Side two{.kernel = kernels[second], .tally = {RunTally::Company::kOne, order_.rounds}};
  std::atomic<bool> over = false;
  std::thread beside([&] { RepeatBeside(two, one, over); });
  RepeatBeside(one, two, over);
  beside.join();
  const auto failed = [](const Side& own, const Side& other, const Error& why) {
    return Fail(why.code,
                fmt::format("'{}' beside '{}': {}", TextOf(own.kernel.work), TextOf(other.kernel.work), why.message));
  };
  if (!one.outcome) return failed(one, two, one.outcome.error());
  if (!two.outcome) return failed(two, one, two.outcome.error());
  const auto first_took = one.tally.Take(), second_took = two.tally.Take();
  if (!first_took) return failed(one, two, first_took.error());
  if (!second_took) return failed(two, one, second_took.error());
  out_.profile.pairs.push_back({.first = first,
                                .second = second,
                                .first_s = first_took->seconds,
                                .second_s = second_took->seconds,
                                .first_beside = first_took->beside,
                                .second_beside = second_took->beside});
  const auto slower = SlowdownsOf(out_.profile, out_.profile.pairs.back());
  SayStep(fmt::format("{} beside {}: {:.2f} and {:.2f} times alone", TextOf(one.kernel.work), TextOf(two.kernel.work),
                      slower[0], slower[1]));
  return Ok();
}

Result<Profiled> Profiler::Measure(const ProfileOrder& order) {
  order_ = order;
  WEIR_TRY_STATUS(ChooseDevice(order.device));
  WEIR_TRY_STATUS(ChooseKernels(order));
  std::vector<ProfiledKernel>& kernels = out_.profile.kernels;
  const auto pairs_of = [](std::size_t count) { return count * (count + 1) / 2; };
  steps_ = kernels.size() + pairs_of(kernels.size());
  for (std::size_t i = 0; i < kernels.size();) {
    const Status measured = MeasureAlone(kernels[i]);
    if (stopping_) return Interrupted();
    if (!measured && (!order.all || kernels.size() == 1)) return measured.error();
    if (!measured) {
      LeaveOut(measured.error().message);
      kernels.erase(kernels.begin() + static_cast<std::ptrdiff_t>(i));
      steps_ = kernels.size() + pairs_of(kernels.size());
      continue;
    }
    SayStep(fmt::format("{} alone: {}, {} runs", TextOf(kernels[i].work), MillisecondsText(kernels[i].alone_s),
                        kernels[i].runs));
    ++i;
  }
  const core::DeviceCapacity& capacity = out_.profile.capacity;
  if (capacity.runs_max < 2) {
    LeaveOut(fmt::format("all pairs: {} runs one kernel at a time", out_.profile.device));
    return std::move(out_);
  }
  for (std::size_t first = 0; first < kernels.size(); ++first)
    for (std::size_t second = first; second < kernels.size(); ++second) {
      const std::uint64_t both = kernels[first].need.memory.count + kernels[second].need.memory.count;
      const Status measured =
          both <= capacity.memory.count
              ? MeasurePair(first, second)
              : Fail(Errc::kResourceExhausted,
                     fmt::format("'{}' beside '{}': {} has not the memory for both", TextOf(kernels[first].work),
                                 TextOf(kernels[second].work), out_.profile.device));
      if (stopping_) return Interrupted();
      if (measured) continue;
      if (!order.all && both <= capacity.memory.count) return measured.error();
      ++step_;
      LeaveOut(measured.error().message);
    }
  return std::move(out_);
}

}  // namespace weir::cli
