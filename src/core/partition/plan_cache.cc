// SPDX-License-Identifier: Apache-2.0
#include "core/partition/plan_cache.h"

#include <algorithm>
#include <cmath>

namespace weir::core {
namespace {

constexpr double kAlikeWithin = 1.0 / 8;

bool RatesAlike(double a, double b) { return std::abs(a - b) <= kAlikeWithin * std::max(std::abs(a), std::abs(b)); }

bool TimesAlike(Duration a, Duration b) {
  constexpr Duration kNothing = microseconds(100);
  return (a <= kNothing && b <= kNothing) || RatesAlike(SecondsOf(a), SecondsOf(b));
}

bool DevicesAlike(const DeviceView& a, const DeviceView& b) {
  return a.room == b.room && a.total == b.total && RatesAlike(a.in_bytes_per_s, b.in_bytes_per_s) &&
         RatesAlike(a.out_bytes_per_s, b.out_bytes_per_s) && TimesAlike(a.queue, b.queue) &&
         TimesAlike(a.launch, b.launch) && RatesAlike(a.group_s, b.group_s);
}

bool PeersAlike(const PeerView& a, const PeerView& b) {
  return a.id == b.id && a.threads == b.threads && DevicesAlike(a.device, b.device) &&
         RatesAlike(a.link.bytes_per_s, b.link.bytes_per_s) && TimesAlike(a.link.latency, b.link.latency) &&
         TimesAlike(a.link.stretch, b.link.stretch) && TimesAlike(a.link.queue, b.link.queue);
}

class KeyWriter {
 public:
  void Word(std::uint64_t word) { Bytes(std::as_bytes(std::span(&word, 1))); }
  void Bytes(std::span<const std::byte> bytes) { key_.insert(key_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> Take() { return std::move(key_); }

 private:
  std::vector<std::byte> key_;
};

std::vector<std::vector<std::byte>> ValuesOf(const kernel::KernelLaunch& launch) {
  std::vector<std::vector<std::byte>> values;
  for (const kernel::LaunchArgument& argument : launch.arguments)
    values.emplace_back(argument.value.begin(), argument.value.end());
  return values;
}

std::vector<kernel::LaunchArgument> ArgumentsWith(const kernel::KernelLaunch& launch,
                                                  const std::vector<std::vector<std::byte>>& values) {
  std::vector<kernel::LaunchArgument> arguments(launch.arguments.begin(), launch.arguments.end());
  for (std::size_t i = 0; i < arguments.size(); ++i) arguments[i].value = values[i];
  return arguments;
}

kernel::KernelLaunch LaunchWith(const kernel::KernelLaunch& launch, std::span<const kernel::LaunchArgument> arguments) {
  kernel::KernelLaunch copy = launch;
  copy.arguments = arguments;
  return copy;
}

}  // namespace

bool Alike(const PlanViews& a, const PlanViews& b) {
  return a.mode == b.mode && DevicesAlike(a.here, b.here) && std::ranges::equal(a.peers, b.peers, PeersAlike);
}

CutLaunchPlans::CutLaunchPlans(std::shared_ptr<const kernel::ProgramAnalysis> analysis,
                               const kernel::KernelAccess& access, const kernel::KernelLaunch& launch,
                               std::uint64_t alignment)
    : analysis_(std::move(analysis)),
      values_(ValuesOf(launch)),
      arguments_(ArgumentsWith(launch, values_)),
      launch_(LaunchWith(launch, arguments_)),
      need_(access, launch_, alignment) {}

const Plan& CutLaunchPlans::PlanFor(const PlanViews& views, bool from_elsewhere) {
  const auto known = std::ranges::find_if(plans_, [&](const CachedPlan& kept) {
    return kept.from_elsewhere == from_elsewhere && Alike(kept.views, views);
  });
  if (known != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, known);
    return plans_.front().plan;
  }
  TaskView task{.need = &need_, .from_elsewhere = from_elsewhere};
  for (unsigned d = 0; d < launch_.dimensions; ++d) task.groups[d] = launch_.Groups(d);
  ++made_;
  plans_.push_front({.views = views,
                     .from_elsewhere = from_elsewhere,
                     .plan = MakePlan(views.mode, task, views.here, std::span<const PeerView>(views.peers))});
  if (plans_.size() > kPlansMax) plans_.pop_back();
  return plans_.front().plan;
}

std::vector<std::byte> LaunchCache::KeyOf(std::uint64_t program, std::size_t kernel, const kernel::KernelAccess& access,
                                          const kernel::KernelLaunch& launch, std::uint64_t alignment) {
  KeyWriter key;
  key.Word(program);
  key.Word(kernel);
  key.Word(alignment);
  key.Word(launch.dimensions);
  for (unsigned d = 0; d < launch.dimensions; ++d) {
    key.Word(launch.offset[d]);
    key.Word(launch.global[d]);
    key.Word(launch.local[d]);
  }
  for (const kernel::LaunchArgument& argument : launch.arguments) {
    key.Word(argument.memory);
    key.Word(argument.offset);
    key.Word(argument.bytes);
    key.Word(argument.value.size());
  }
  for (const kernel::Expr& expr : access.exprs) {
    if (expr.op != kernel::ExprOp::kArgument || expr.a >= launch.arguments.size()) continue;
    const std::span<const std::byte> value = launch.arguments[expr.a].value;
    const std::size_t begin = std::min<std::size_t>(expr.b, value.size());
    key.Bytes(value.subspan(begin, std::min<std::size_t>((expr.bits + 7) / 8, value.size() - begin)));
  }
  return key.Take();
}

CutLaunchPlans* LaunchCache::Find(std::span<const std::byte> key) {
  const auto known =
      std::ranges::find_if(launches_, [&](const Known& one) { return std::ranges::equal(one.key, key); });
  if (known == launches_.end()) return nullptr;
  launches_.splice(launches_.begin(), launches_, known);
  return known->plans.get();
}

CutLaunchPlans& LaunchCache::Keep(std::vector<std::byte> key, std::unique_ptr<CutLaunchPlans> plans) {
  launches_.push_front({.key = std::move(key), .plans = std::move(plans)});
  if (launches_.size() > kLaunchesMax) launches_.pop_back();
  return *launches_.front().plans;
}

}  // namespace weir::core
