// SPDX-License-Identifier: Apache-2.0
#include "core/placement/cluster_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::core {
namespace {

constexpr std::uint64_t kHashStart = 0xCBF29CE484222325ULL;
void MixIn(std::uint64_t& hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  hash ^= hash >> 32;
}

}  // namespace

std::size_t ClusterState::StateHash::operator()(const DeviceState& state) const noexcept {
  std::uint64_t hash = kHashStart;
  MixIn(hash, std::uint64_t{state.kind} << 32 | state.runs);
  MixIn(hash, state.used.count);
  MixIn(hash, state.run_ms);
  for (const KindCount& count : state.by_kind) {
    if (count.runs == 0) break;
    MixIn(hash, std::uint64_t{count.kind} << 32 | count.runs);
  }
  return hash;
}

std::size_t ClusterState::KindHash::operator()(const RunNeed& need) const noexcept {
  std::uint64_t hash = kHashStart;
  MixIn(hash, need.work);
  MixIn(hash, need.alone_ms);
  for (const std::uint64_t load : need.loads) MixIn(hash, load);
  return hash;
}

std::uint32_t ClusterState::CountAs(const RunNeed& need, const DeviceState& state) {
  RunNeed kind = need;
  kind.memory = {};
  const auto known = kind_of_.find(kind);
  if (known != kind_of_.end() &&
      (state.by_kind.back().runs == 0 ||
       std::ranges::find(state.by_kind, known->second, &KindCount::kind) != state.by_kind.end())) {
    ++run_kinds_[known->second].runs;
    return known->second;
  }
  std::uint32_t as = 0;
  if (state.by_kind.back().runs > 0) {
    const auto off = [&](const KindCount& count) {
      const std::uint64_t there = KindOf(count.kind).alone_ms;
      return std::max(there, need.alone_ms) - std::min(there, need.alone_ms);
    };
    as = std::ranges::min_element(state.by_kind, {}, off)->kind;
  } else if (!free_kinds_.empty()) {
    as = free_kinds_.back();
    free_kinds_.pop_back();
  } else {
    as = static_cast<std::uint32_t>(run_kinds_.size());
    run_kinds_.emplace_back();
  }
  if (run_kinds_[as].runs++ == 0) {
    run_kinds_[as].need = kind;
    kind_of_.emplace(kind, as);
  }
  return as;
}

void ClusterState::GiveBackKind(std::uint32_t kind) {
  if (--run_kinds_[kind].runs > 0) return;
  kind_of_.erase(run_kinds_[kind].need);
  free_kinds_.push_back(kind);
}

void ClusterState::Join(DeviceId id, Device& device, const DeviceState& state) {
  const bool reuse = !free_.empty();
  const auto [at, fresh] =
      group_of_.try_emplace(state, reuse ? free_.back() : static_cast<std::uint32_t>(groups_.size()));
  if (fresh && reuse) {
    free_.pop_back();
    groups_[at->second].state = state;
  } else if (fresh) {
    groups_.push_back({state, id});
    members_.emplace_back();
  }
  device.group = at->second;
  members_[device.group].insert(id);
  groups_[device.group].lowest = *members_[device.group].begin();
}

void ClusterState::Leave(DeviceId id, const Device& device) {
  Group& group = groups_[device.group];
  std::set<DeviceId>& members = members_[device.group];
  members.erase(id);
  group.lowest = members.empty() ? DeviceId{} : *members.begin();
  if (!members.empty()) return;
  group_of_.erase(group.state);
  free_.push_back(device.group);
}

Status ClusterState::Add(DeviceId device, const DeviceCapacity& capacity) {
  if (!device) return Fail(Errc::kInvalidArgument, "a device's id is 1 or more");
  WEIR_TRY_STATUS(CheckDevice(capacity));
  const auto [at, fresh] = devices_.try_emplace(device);
  if (!fresh) return Fail(Errc::kAlreadyExists, fmt::format("device {} exists already", device.value));
  const auto known = std::ranges::find(kinds_, capacity);
  const auto kind = static_cast<std::uint32_t>(known - kinds_.begin());
  if (known == kinds_.end()) {
    kinds_.push_back(capacity);
    kind_sizes_.push_back(0);
  }
  ++kind_sizes_[kind];
  Join(device, at->second, {.kind = kind});
  return Ok();
}

Result<std::vector<RunId>> ClusterState::Remove(DeviceId device) {
  const auto at = devices_.find(device);
  if (at == devices_.end()) return Fail(Errc::kNotFound, fmt::format("no device {}", device.value));
  std::vector<RunId> lost = RunsOn(device);
  for (const RunId run : lost) {
    GiveBackKind(runs_.at(run).as);
    runs_.erase(run);
  }
  --kind_sizes_[groups_[at->second.group].state.kind];
  Leave(device, at->second);
  devices_.erase(at);
  return lost;
}

Status ClusterState::Place(RunId run, const RunNeed& need, DeviceId device) {
  if (!run) return Fail(Errc::kInvalidArgument, "a run's id is 1 or more");
  WEIR_TRY_STATUS(CheckNeed(need));
  const auto at = devices_.find(device);
  if (at == devices_.end()) return Fail(Errc::kNotFound, fmt::format("no device {}", device.value));
  if (runs_.contains(run))
    return Fail(Errc::kAlreadyExists,
                fmt::format("run {} is on device {} already", run.value, runs_.at(run).device.value));
  DeviceState state = groups_[at->second.group].state;
  const DeviceCapacity& capacity = CapacityOf(state);
  if (!state.Holds(need, capacity))
    return Fail(Errc::kResourceExhausted,
                fmt::format("device {} has no room for run {}: {} of {} bytes are reserved and {} are needed, {} of {} "
                            "runs are there",
                            device.value, run.value, state.used.count, capacity.memory.count, need.memory.count,
                            state.runs, capacity.runs_max));
  const std::uint32_t as = CountAs(need, state);
  state.Take(need, as);
  Leave(device, at->second);
  Join(device, at->second, state);
  at->second.runs.push_back(run);
  runs_.emplace(run, Placed{device, need, as});
  return Ok();
}

Status ClusterState::Release(RunId run) {
  const auto placed = runs_.find(run);
  if (placed == runs_.end()) return Fail(Errc::kNotFound, fmt::format("run {} is on no device", run.value));
  const DeviceId device = placed->second.device;
  Device& on = devices_.find(device)->second;
  DeviceState state = groups_[on.group].state;
  const std::uint32_t as = placed->second.as;
  state.GiveBack(placed->second.need, as);
  std::erase(on.runs, run);
  runs_.erase(placed);
  Leave(device, on);
  Join(device, on, state);
  GiveBackKind(as);
  return Ok();
}

const DeviceState* ClusterState::StateOf(DeviceId device) const {
  const auto at = devices_.find(device);
  return at == devices_.end() ? nullptr : &groups_[at->second.group].state;
}

const RunNeed* ClusterState::NeedOf(RunId run) const {
  const auto at = runs_.find(run);
  return at == runs_.end() ? nullptr : &at->second.need;
}

DeviceId ClusterState::DeviceOf(RunId run) const {
  const auto at = runs_.find(run);
  return at == runs_.end() ? DeviceId{} : at->second.device;
}

std::vector<RunId> ClusterState::RunsOn(DeviceId device) const {
  const auto at = devices_.find(device);
  if (at == devices_.end()) return {};
  std::vector<RunId> runs = at->second.runs;
  std::ranges::sort(runs);
  return runs;
}

bool ClusterState::EverHolds(const RunNeed& need) const {
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
    if (kind_sizes_[kind] > 0 && DeviceState{}.Holds(need, kinds_[kind])) return true;
  return false;
}

}  // namespace weir::core
