// SPDX-License-Identifier: Apache-2.0
// The elastic memory of a device: applies the decisions of core/memory to vGPUs, and tells users of them.
#include <fmt/format.h>

#include <algorithm>

#include "engine/node_engine.h"
#include "engine/node_state.h"

namespace weir::engine {
namespace {

using core::BalloonNote;

/// The largest need of one recent command counts for this long.
constexpr Duration kMustKept = seconds(10);
/// Minimum time between two reports about launches in parts, since a program may launch thousands of times a second.
constexpr Duration kPartsNotePeriod = seconds(1);

/// How much a total has grown.
Bytes Since(Bytes before, Bytes now) { return Bytes{now.count - std::min(before.count, now.count)}; }

}  // namespace

void NodeEngine::Say(const BalloonNote& note, const Device_& device, Actions& actions) const {
  actions.decisions.push_back({.device = device.spec.name, .vgpu = NameOf(note.vgpu), .what = note});
}

MemoryGrant NodeEngine::ElasticMemoryOf(const Vgpu_& vgpu) {
  const Memory_& memory = *vgpu.device->memory;
  return {.elastic = true,
          .limit = memory.balloon.arena().CountOf(vgpu.id),
          .here = std::min(memory.turns.HereOf(vgpu.id), memory.balloon.arena().CountOf(vgpu.id)),
          .max = memory.balloon.MaxOf(vgpu.id)};
}

/// Requests more slots if the vGPU needs more than it holds. A refused request is not repeated before it can succeed,
/// unless a waiting command can't run without the slots.
void NodeEngine::AskMemory(Instant now, Vgpu_& vgpu, Actions& actions) {
  core::Balloon& balloon = vgpu.device->memory->balloon;
  const MemorySample& sample = vgpu.memory_sample;
  const std::uint32_t held = balloon.arena().CountOf(vgpu.id);
  const std::uint32_t must = balloon.arena().SlotsFor(sample.stats.must);
  const Bytes need = std::max(sample.stats.need, sample.stats.must);
  if (balloon.arena().SlotsFor(need) <= held) return;
  const bool urgent = must > held && held < balloon.MaxOf(vgpu.id);
  if (now < vgpu.memory_asks_at && !urgent) return;
  const auto grant = balloon.Ask(now, vgpu.id, need, sample.stats.must);
  if (!grant) return;
  vgpu.memory_asks_at = grant->again;
  if (grant->granted() || grant->note.kind != vgpu.memory_refused) Say(grant->note, *vgpu.device, actions);
  vgpu.memory_refused = grant->note.kind;
}

/// Ends an executor that does not give up ordered slots, since other vGPUs wait for them; afterwards the slots are
/// free.
void NodeEngine::AwaitAnswer(Instant now, Vgpu_& vgpu, Actions& actions) {
  const Duration within = vgpu.device->memory->balloon.AnswerWithin();
  if (vgpu.memory_sample.done) vgpu.memory_owes_since = {};
  if (vgpu.memory_sample.done || within == Duration{}) return;
  if (vgpu.memory_owes_since == Instant{}) vgpu.memory_owes_since = now;
  const Instant until = vgpu.memory_owes_since + within;
  actions.look_again = std::min(actions.look_again, std::max(now, until));
  if (now < until) return;
  vgpu.memory_owes_since = now;  // restarts the time, in case the executor survives
  actions.end.push_back({vgpu.id});
  actions.decisions.push_back(
      {.device = vgpu.device->spec.name, .vgpu = vgpu.name, .what = ExecutorEnded{.within = within}});
}

/// Reports the launches in parts since the last report. Counts that have fallen belong to a new executor, so that all
/// of its launches are new.
void NodeEngine::SayParts(Instant now, Vgpu_& vgpu, Actions& actions) {
  const proto::ExecutorStatistics& stats = vgpu.memory_sample.stats;
  proto::ExecutorStatistics& said = vgpu.parts_said;
  if (stats.launches_in_parts < said.launches_in_parts || stats.launches_not_cut < said.launches_not_cut) said = {};
  const std::uint64_t ran = stats.launches_in_parts - said.launches_in_parts;
  const std::uint64_t whole = stats.launches_not_cut - said.launches_not_cut;
  if ((ran == 0 && whole == 0) || now < vgpu.parts_say_at) return;
  const bool asked = vgpu.settings.partition == core::PartitionMode::kAlways;
  if (ran > 0)
    actions.decisions.push_back({.device = vgpu.device->spec.name,
                                 .vgpu = vgpu.name,
                                 .what = LaunchesRanInParts{.launches = ran,
                                                            .parts = stats.parts - std::min(said.parts, stats.parts),
                                                            .in = Since(said.parts_in, stats.parts_in),
                                                            .out = Since(said.parts_out, stats.parts_out),
                                                            .asked = asked}});
  if (whole > 0)
    actions.decisions.push_back({.device = vgpu.device->spec.name,
                                 .vgpu = vgpu.name,
                                 .what = LaunchesNotCut{.launches = whole, .asked = asked}});
  said = stats;
  vgpu.parts_say_at = now + kPartsNotePeriod;
}

/// Contents can take as many slots as the largest maximum that the vGPU has had: where the maximum is lowered, the
/// executor evicts later than the slots change hands. They can take the whole device after memory was not elastic.
void NodeEngine::RaiseContentsMax(Vgpu_& vgpu) {
  const Bytes max = vgpu.settings.memory_max;
  vgpu.contents_max = std::max(vgpu.contents_max, max.count > 0 ? SlotsOf(max) : static_cast<std::uint32_t>(kSlotsMax));
}

/// Reduces contents that can't be true. A tenant may control its executor: it could otherwise keep all slots from other
/// vGPUs, since no slot is assigned where contents may lie, or hide that other programs hold memory.
void NodeEngine::BoundContents(Vgpu_& vgpu) {
  proto::ExecutorStatistics& stats = vgpu.memory_sample.stats;
  stats.resident_slots = std::min(stats.resident_slots, vgpu.contents_max);
  stats.resident = std::min(stats.resident, Bytes{vgpu.contents_max * kSlotBytes.count});
}

core::SlotNeed NodeEngine::NeedOf(const Vgpu_& vgpu, const core::SlotArena& arena) {
  const MemorySample& sample = vgpu.memory_sample;
  return {.id = vgpu.id,
          .wants = arena.SlotsFor(sample.stats.need),
          .must = arena.SlotsFor(sample.stats.must),
          .resident = sample.stats.resident_slots,
          .copying = sample.stats.switch_copy,
          .active = vgpu.View().last_active,
          .done = sample.done};
}

void NodeEngine::SeeMemory(Instant now, Device_& device, Actions& actions) {
  Memory_& memory = *device.memory;
  memory.views.clear();
  memory.needs.clear();
  memory.said.clear();
  memory.changed.clear();
  for (Vgpu_* vgpu : device.all) {
    vgpu->memory_there = std::exchange(vgpu->memory_fresh, false);
    if (!vgpu->memory_there) {
      vgpu->memory_sample = {.vgpu = vgpu->id};
      vgpu->parts_said = {};
      vgpu->memory_owes_since = {};
      continue;
    }
    SayParts(now, *vgpu, actions);
    const MemorySample& sample = vgpu->memory_sample;
    if (sample.stats.must >= vgpu->memory_must || now - vgpu->memory_must_at > kMustKept) {
      vgpu->memory_must = sample.stats.must;
      vgpu->memory_must_at = now;
    }
    AwaitAnswer(now, *vgpu, actions);
    AskMemory(now, *vgpu, actions);
    const core::SlotArena& arena = memory.balloon.arena();
    memory.views.push_back({.id = vgpu->id,
                            .in_use = sample.stats.in_use,
                            .must = vgpu->memory_must,
                            .copying = sample.stats.switch_copy,
                            .steal = sample.stats.steal,
                            .elsewhere = sample.stats.elsewhere,
                            .threads = sample.stats.threads});
    memory.needs.push_back(NeedOf(*vgpu, arena));
  }
  const Instant next = memory.balloon.See(now, memory.views, memory.said);
  for (const BalloonNote& note : memory.said) Say(note, device, actions);
  memory.turns.SetCopies(memory.balloon.TurnCopies());
  const Instant turn = memory.turns.See(now, memory.balloon.arena(), memory.needs, memory.changed);
  if (!memory.needs.empty()) actions.look_again = std::min({actions.look_again, next, turn});
}

/// Whether the vGPU, which may be new, can have these limits of elastic memory.
Status NodeEngine::CheckMemory(const Vgpu_& vgpu, const VgpuSettings& asked) {
  if (!vgpu.device->memory) return Ok();
  Status may = vgpu.device->memory->balloon.Check(vgpu.id, asked.memory_min, asked.memory_max);
  if (!may) return Of(vgpu.name, std::move(may).error());
  return Ok();
}

/// Elastic memory of `slots` slots, in which each vGPU of the device holds its minimum.
Result<std::unique_ptr<NodeEngine::Memory_>> NodeEngine::MakeMemory(const Device_& device, const SetMemory& set,
                                                                    std::uint32_t slots) const {
  const auto params = core::ParamsFrom<core::BalloonParams>(set.params);
  auto memory = std::make_unique<Memory_>(
      Memory_{.balloon = core::Balloon(set.params, {.slots = slots, .cpus = set.cpus}),
              .turns = core::SlotTurns(slots, {.least = params.turn, .copies = params.turn_copies}),
              .views = {},
              .needs = {},
              .said = {},
              .changed = {}});
  for (const auto& [id, vgpu] : vgpus_)
    if (vgpu->device == &device)
      if (Status added = memory->balloon.Add(id, vgpu->settings.memory_min, vgpu->settings.memory_max); !added)
        return Of(vgpu->name, std::move(added).error());
  return memory;
}

Status NodeEngine::On(Instant now, const SetMemory& event, Actions& actions) {
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  std::unique_ptr<Memory_> memory;
  SetMemory set = event;
  if (event.size.count > 0) {
    WEIR_TRY(set.params, core::CheckBalloonParams(event.params));
    const std::uint64_t slots = event.size.count / kSlotBytes.count;
    if (slots == 0 || slots > kSlotsMax)
      return Fail(Errc::kInvalidArgument,
                  fmt::format("{} can't have {:g} MiB of elastic memory: give between {} and {} MiB", device->spec.name,
                              static_cast<double>(event.size.count) / (1 << 20), kSlotBytes.count >> 20,
                              (kSlotBytes.count >> 20) * kSlotsMax));
    WEIR_TRY(memory, MakeMemory(*device, set, static_cast<std::uint32_t>(slots)));
    if (const std::uint32_t left = SlotsBeside(*device, set); left < slots) {
      WEIR_TRY(memory, MakeMemory(*device, set, left));
    }
  }
  device->memory = std::move(memory);
  device->memory_set = std::move(set);
  for (Vgpu_* vgpu : device->all) {
    vgpu->memory_asks_at = {};
    // Executors with elastic memory may then use the whole device.
    if (!device->memory) vgpu->contents_max = static_cast<std::uint32_t>(kSlotsMax);
  }
  device->WakeAll(now, actions);
  actions.decisions.push_back(
      {.device = device->spec.name,
       .vgpu = "",
       .what = MemorySizeChanged{.slots = device->memory ? device->memory->balloon.arena().slots() : 0}});
  Decide(now, *device, actions);
  return Ok();
}

// -- What others hold ------------------------------------------------------------------------------------------------

/// The slots that other programs leave to vGPUs, but at least the guaranteed ones.
std::uint32_t NodeEngine::SlotsBeside(const Device_& device, const SetMemory& set) const {
  const auto all = static_cast<std::uint32_t>(set.size.count / kSlotBytes.count);
  const double sold_max = core::ParamsFrom<core::BalloonParams>(set.params).sold_max;
  std::uint64_t guaranteed = 0, least = 1;
  for (const auto& [id, vgpu] : vgpus_) {
    if (vgpu->device != &device) continue;
    const std::uint64_t min = SlotsOf(vgpu->settings.memory_min);
    guaranteed += min;
    least = std::max(least, min);
  }
  std::uint32_t slots = std::max(all - std::min(device.others.slots(), all), static_cast<std::uint32_t>(least));
  while (slots < all && static_cast<std::uint64_t>(sold_max * slots) < guaranteed) ++slots;
  return slots;
}

/// If the number of available slots has changed, rebuilds the memory with it. Each vGPU gets as many slots as it held,
/// and owns those of its resident contents, as far as they fit.
Status NodeEngine::On(Instant now, const SeeDeviceMemory& event, Actions& actions) {
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  Bytes ours{};
  for (const Vgpu_* vgpu : device->all) ours.count += vgpu->memory_sample.stats.resident.count;
  if (!device->others.See(now, event.used, ours) || !device->memory) return Ok();
  const std::uint32_t slots = SlotsBeside(*device, device->memory_set);
  const std::uint32_t others = device->others.slots();
  const auto all = static_cast<std::uint32_t>(device->memory_set.size.count / kSlotBytes.count);
  const core::SlotArena& before = device->memory->balloon.arena();
  if (slots != before.slots()) {
    WEIR_TRY(std::unique_ptr<Memory_> memory, MakeMemory(*device, device->memory_set, slots));
    for (Vgpu_* vgpu : device->all) {
      vgpu->memory_asks_at = {};
      if (const std::uint32_t held = before.CountOf(vgpu->id); held > memory->balloon.MinOf(vgpu->id))
        static_cast<void>(memory->balloon.Ask(now, vgpu->id, Bytes{held * kSlotBytes.count}));
      if (vgpu->memory_there) memory->needs.push_back(NeedOf(*vgpu, memory->balloon.arena()));
    }
    memory->turns.See(now, memory->balloon.arena(), memory->needs, memory->changed);
    device->memory = std::move(memory);
  }
  actions.decisions.push_back({.device = device->spec.name,
                               .vgpu = "",
                               .what = OthersMemoryChanged{.others = others, .all = all, .slots = slots}});
  Decide(now, *device, actions);
  return Ok();
}

bool NodeEngine::elastic() const {
  return std::ranges::any_of(devices_, [](const auto& device) { return device->memory != nullptr; });
}

MemoryStatus NodeEngine::MemoryOf(const Device_& device) {
  if (!device.memory) return {};
  const core::Balloon& balloon = device.memory->balloon;
  return {.slots = balloon.arena().slots(),
          .size = static_cast<std::uint32_t>(device.memory_set.size.count / kSlotBytes.count),
          .others = device.others.slots(),
          .params = balloon.params(),
          .guaranteed = balloon.guaranteed(),
          .held = balloon.arena().total(),
          .overhead = balloon.overhead(),
          .steal = balloon.steal(),
          .copying = balloon.copying(),
          .pressure = balloon.pressure(),
          .switches = device.memory->turns.switches()};
}

Result<MemoryMap> NodeEngine::Memory(std::string_view name) const {
  WEIR_TRY(const Device_* device, DeviceNamed(name));
  MemoryMap map;
  if (!device->memory) return map;
  const core::SlotArena& arena = device->memory->balloon.arena();
  const core::SlotTurns& turns = device->memory->turns;
  for (std::uint32_t slot = 0; slot < arena.slots(); ++slot)
    map.slots.push_back({arena.sharers()[slot], turns.OwnerOf(slot), turns.Leaving(slot)});
  for (const Vgpu_* vgpu : device->all) map.holders.push_back({vgpu->id, vgpu->name, arena.RangesOf(vgpu->id)});
  std::ranges::sort(map.holders, {}, &MemoryHolder::id);
  return map;
}

}  // namespace weir::engine
