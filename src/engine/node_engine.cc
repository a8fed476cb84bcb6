// SPDX-License-Identifier: Apache-2.0
#include "engine/node_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/node_state.h"

namespace weir::engine {

namespace {

// The core does not use the layout of the gate, so both have these enums. Their values are equal.
static_assert(static_cast<std::uint32_t>(core::FrameSync::kFinish) ==
              static_cast<std::uint32_t>(proto::FrameSync::kFinish));
static_assert(static_cast<std::uint32_t>(core::FrameStart::kLate) ==
              static_cast<std::uint32_t>(proto::FrameStart::kLate));

/// Whether two caps differ enough to be published. Agents only show caps to users, so that changes below one hundredth
/// do not matter.
bool Apart(Share a, Share b) { return (a > b ? a.ppm - b.ppm : b.ppm - a.ppm) >= Share::kWholePpm / 100; }

/// Updates what policies know of the frames of a vGPU. The mean cost covers about eight frames.
void Learn(const core::FrameDone& frame, Duration& last_gpu, core::ThinkTime& think, core::VgpuView& view) {
  const bool first = view.frame_gpu == Duration{0} && view.frame_think == Duration{0};
  view.frame_gpu = first ? frame.gpu : (view.frame_gpu * 7 + frame.gpu) / 8;
  view.blocks = frame.present_follows;
  view.recent_gpu = std::min(frame.gpu, last_gpu);
  last_gpu = frame.gpu;
  think.Add(frame.end, frame.Think());
  view.frame_think = think.mean();
  view.least_think = think.least();
}

/// Whether the vGPU gains from the end of others' work. A vGPU that its cap holds back does not.
bool Waits(const core::VgpuView& view) { return view.waiting > 0 && !view.held; }

Error NoVgpu(VgpuId id) { return Fail(Errc::kNotFound, fmt::format("no vGPU with id {}", id.value)); }

}  // namespace

NodeEngine::NodeEngine(std::vector<DeviceSpec> devices, PolicyMaker maker) : maker_(std::move(maker)) {
  WEIR_CHECK(!devices.empty());
  for (DeviceSpec& spec : devices) {
    auto device = std::make_unique<Device_>();
    device->spec = std::move(spec);
    const auto entry = core::FindPolicy(core::kDefaultPolicy);
    WEIR_CHECK(entry.has_value());
    device->entry = *entry;
    auto params = core::CheckParams(**entry, {});
    WEIR_CHECK(params.has_value());
    device->policy = Make(**entry, *params);
    auto selling = core::CheckOversellParams({});
    WEIR_CHECK(selling.has_value());
    device->sales = std::make_unique<core::Oversell>(core::OversellMode::kOff, *selling);
    devices_.push_back(std::move(device));
  }
}

NodeEngine::~NodeEngine() = default;

Status NodeEngine::Step(Instant now, const Event& event, Actions& actions) {
  actions.Clear();
  return std::visit([&](const auto& e) { return On(now, e, actions); }, event);
}

Status NodeEngine::On(Instant now, const CreateVgpu& event, Actions& actions) {
  WEIR_TRY_STATUS(CheckName(event.name));
  WEIR_TRY_STATUS(CheckSettings(event.settings));
  if (names_.contains(event.name))
    return Fail(Errc::kAlreadyExists, fmt::format("a vGPU named '{}' exists already", event.name));
  if (vgpus_.size() >= kVgpusMax)
    return Fail(Errc::kResourceExhausted, fmt::format("this node has {} vGPUs, the maximum", kVgpusMax));
  if (event.id && vgpus_.contains(event.id))
    return Fail(Errc::kAlreadyExists, fmt::format("a vGPU with id {} exists already", event.id.value));
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  if (!event.restored) WEIR_TRY_STATUS(CheckPromise(*device, nullptr, event.settings));

  auto vgpu = std::make_unique<Vgpu_>();
  vgpu->id = event.id ? event.id : VgpuId{next_id_};
  vgpu->name = event.name;
  vgpu->settings = event.settings;
  // An executor of an earlier daemon may have contents of a larger maximum.
  if (event.restored) vgpu->contents_max = static_cast<std::uint32_t>(kSlotsMax);
  RaiseContentsMax(*vgpu);
  vgpu->device = device;
  WEIR_TRY_STATUS(CheckMemory(*vgpu, vgpu->settings));
  if (Status sold = device->sales->Add(vgpu->id, vgpu->settings.cap, event.sale, event.restored); !sold)
    return WithBuyers(std::move(sold).error(), *device, vgpu->id);
  if (device->memory)
    WEIR_CHECK(device->memory->balloon.Add(vgpu->id, vgpu->settings.memory_min, vgpu->settings.memory_max).has_value());
  device->Place(*vgpu);
  KeepId(vgpu->id);
  actions.created = vgpu->id;
  names_.emplace(vgpu->name, vgpu->id);
  vgpus_.emplace(vgpu->id, std::move(vgpu));
  Decide(now, *device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const SetVgpu& event, Actions& actions) {
  WEIR_TRY(Vgpu_ * vgpu, Get(event.id));
  WEIR_TRY_STATUS(CheckSettings(event.settings));
  WEIR_TRY_STATUS(CheckPromise(*vgpu->device, vgpu, event.settings));
  WEIR_TRY_STATUS(CheckMemory(*vgpu, event.settings));
  if (Status sold = vgpu->device->sales->SetCeiling(vgpu->id, event.settings.cap); !sold)
    return WithBuyers(std::move(sold).error(), *vgpu->device, vgpu->id);
  if (vgpu->device->memory) {
    const auto bounds =
        vgpu->device->memory->balloon.SetBounds(vgpu->id, event.settings.memory_min, event.settings.memory_max);
    WEIR_CHECK(bounds.has_value());
    vgpu->memory_asks_at = {};
    if (bounds->slots > 0) Say(*bounds, *vgpu->device, actions);
  }
  if (PromisedInterval(event.settings) != vgpu->View().promised) vgpu->rate_need = vgpu->rate_granted = 0;
  vgpu->device->Wake(now, *vgpu, actions);
  vgpu->settings = event.settings;
  RaiseContentsMax(*vgpu);
  vgpu->View().weight = event.settings.weight;
  vgpu->View().cap = vgpu->device->sales->CapOf(vgpu->id);
  vgpu->View().promised = PromisedInterval(event.settings);
  vgpu->published = false;
  vgpu->device->promises_at = vgpu->device->rate_caps_at = {};
  Decide(now, *vgpu->device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const RemoveVgpu& event, Actions& actions) {
  WEIR_TRY(Vgpu_ * vgpu, Get(event.id));
  Device_& device = *vgpu->device;
  device.Drop(*vgpu);
  device.sales->Remove(vgpu->id);
  if (device.memory) static_cast<void>(device.memory->balloon.Remove(vgpu->id));
  names_.erase(vgpu->name);
  vgpus_.erase(event.id);
  drawn_last_ = nullptr;
  Decide(now, device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const PauseVgpu& event, Actions& actions) {
  WEIR_TRY(Vgpu_ * vgpu, Get(event.id));
  if (vgpu->paused == event.paused) return Ok();
  vgpu->device->Wake(now, *vgpu, actions);
  vgpu->paused = event.paused;
  vgpu->published = false;
  actions.tell.push_back({vgpu->id, event.paused ? proto::CommandKind::kPause : proto::CommandKind::kResume, 0});
  Decide(now, *vgpu->device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const SetPolicy& event, Actions& actions) {
  WEIR_TRY(Device_ * device, DeviceNamed(event.device));
  const core::PolicyEntry* entry = event.entry;
  if (entry == nullptr) {
    WEIR_TRY(entry, core::FindPolicy(event.policy));
  }
  WEIR_TRY(core::PolicyParams params, core::CheckParams(*entry, event.params));
  device->policy = Make(*entry, params);
  device->entry = entry;
  device->params = std::move(params);
  device->rate_caps_at = {};
  device->WakeAll(now, actions);
  Decide(now, *device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const ProcessAttached& event, Actions& actions) {
  WEIR_TRY(Vgpu_ * vgpu, Get(event.vgpu));
  vgpu->device->Wake(now, *vgpu, actions);
  vgpu->processes.push_back(event.process);
  if (event.draws) vgpu->drawing.push_back(event.process);
  vgpu->View().attached = true;
  vgpu->View().draws = vgpu->Draws();
  vgpu->View().last_active = now;
  vgpu->last_progress = now;
  vgpu->device->rate_caps_at = {};
  Decide(now, *vgpu->device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const ProcessDraws& event, Actions& actions) {
  WEIR_TRY(Vgpu_ * vgpu, Get(event.vgpu));
  if (std::ranges::find(vgpu->processes, event.process) == vgpu->processes.end())
    return Fail(Errc::kNotFound, fmt::format("process {} is not attached to '{}'", event.process.value, vgpu->name));
  vgpu->device->Wake(now, *vgpu, actions);
  std::erase(vgpu->drawing, event.process);
  if (event.draws) vgpu->drawing.push_back(event.process);
  vgpu->View().draws = vgpu->Draws();
  Decide(now, *vgpu->device, actions);
  return Ok();
}

Status NodeEngine::On(Instant now, const ProcessDetached& event, Actions& actions) {
  WEIR_TRY(Vgpu_ * vgpu, Get(event.vgpu));
  if (std::erase(vgpu->processes, event.process) == 0)
    return Fail(Errc::kNotFound, fmt::format("process {} is not attached to '{}'", event.process.value, vgpu->name));
  vgpu->device->Wake(now, *vgpu, actions);
  std::erase(vgpu->drawing, event.process);
  vgpu->View().draws = vgpu->Draws();
  // No charge is refunded: a process that dies in flight has used the device, and a tenant can kill its processes as
  // often as it likes.
  vgpu->View().used += std::clamp<Duration>(event.unreported, Duration{0}, kStuckAfter);
  if (vgpu->device->reconciler.current(now)) vgpu->HasEnded(event.process);
  if (vgpu->processes.empty()) {
    vgpu->View().attached = false;
    vgpu->View().waiting = vgpu->View().in_flight = 0;
    vgpu->View().stuck = false;
    vgpu->threads_wait = false;
    vgpu->reserved_ns = 0;
  }
  Decide(now, *vgpu->device, actions);
  return Ok();
}

/// Finds a vGPU. Samples and frames mostly come in the order of the views, so the vGPU after `last` is tried first.
inline NodeEngine::Vgpu_* NodeEngine::FindBehind(const Vgpu_* last, VgpuId id) const {
  Vgpu_* const behind = last != nullptr ? last->device->Behind(*last) : nullptr;
  return behind != nullptr && behind->id == id ? behind : Find(id);
}

Status NodeEngine::On(Instant now, const GatesSampled& event, Actions& actions) {
  Vgpu_* vgpu = nullptr;
  for (const GateSample& sample : event.samples) {
    vgpu = FindBehind(vgpu, sample.vgpu);
    if (vgpu != nullptr) TakeSample(now, sample, *vgpu);
  }
  for (const MemorySample& sample : event.memory)
    if (const auto found = vgpus_.find(sample.vgpu); found != vgpus_.end()) {
      found->second->memory_sample = sample;
      found->second->memory_fresh = true;
      BoundContents(*found->second);
    }
  for (auto& device : devices_) device->WakeThese(now, actions);
  for (auto& device : devices_)
    if (device->memory) SeeMemory(now, *device, actions);
  looks_.Decided(now);
  Redecide(now, actions);
  looks_.Asked(actions.look_again);
  return Ok();
}

Status NodeEngine::On(Instant now, const FramesDone& event, Actions&) {
  Vgpu_* const vgpu = FindBehind(drawn_last_, event.vgpu);
  drawn_last_ = vgpu;
  if (vgpu == nullptr) return NoVgpu(event.vgpu);
  const core::FramePromise promise{.fps = vgpu->settings.promised_rate(), .latency = vgpu->settings.latency};
  const std::optional<Duration> others = WaitsForOthersMost(now, *vgpu);
  for (const core::FrameDone& frame : event.frames) {
    vgpu->frames.Add(frame, promise, others);
    vgpu->costs.Add(frame);
    Learn(frame, vgpu->last_gpu, vgpu->think, vgpu->View());
  }
  // The rate of a resting vGPU is set when it becomes active.
  if (!vgpu->resting()) vgpu->View().rate = vgpu->frames.Rate(now);
  vgpu->View().frames = vgpu->frames.totals().frames;
  vgpu->View().broken_frames = vgpu->frames.totals().broken_frames;
  vgpu->View().loops_gpu = vgpu->costs.Now().each;
  vgpu->records_lost += event.lost;
  vgpu->records_bad += event.bad;
  return Ok();
}

// The engine adds to the allowance, and agents spend it, so the spent time is the expected allowance minus the sampled
// one. An impossible value, which a tenant has written into its region, is counted and rejected.
void NodeEngine::TakeSample(Instant now, const GateSample& sample, Vgpu_& vgpu) {
  core::VgpuView& view = vgpu.View();
  if (vgpu.resting()) vgpu.last_progress = now;  // it was idle until this sample
  const Duration bound = kSpentSlack + 4 * std::max(now - vgpu.sampled_at, Duration{0});
  vgpu.samples_bad += sample.forged;
  std::int64_t spent = 0;
  const bool beyond = __builtin_sub_overflow(vgpu.expected_allowance_ns, sample.allowance_ns, &spent);
  if (beyond || spent > bound.count() || spent < -bound.count()) {
    ++vgpu.samples_bad;
  } else if (spent != 0) {
    if (spent < 0) vgpu.KeepMost();
    view.used += vgpu.GpuTimeOf(spent);
    view.reported += Duration{spent};
    vgpu.device->NoteCharge(now, vgpu.GpuTimeOf(spent));
    if (!sample.runs_on) vgpu.last_progress = now;  // the charge of one long kernel that runs on is no progress
  }
  vgpu.expected_allowance_ns = sample.allowance_ns;
  vgpu.reserved_ns = std::max<std::int64_t>(sample.reserved_ns, 0);
  vgpu.sampled_at = now;
  view.reserved = vgpu.GpuTimeOf(vgpu.reserved_ns);

  const bool may_go = sample.allowance_ns > 0 || sample.in_flight > 0;
  const bool busy = sample.waiting > 0 || sample.in_flight > 0;
  if (!busy || !may_go) vgpu.last_progress = now;
  // A vGPU may wait behind work that was charged to others. Once it is stuck, only its own progress ends that state,
  // since the others progress because it no longer holds them back.
  const Instant waited_since = view.stuck ? vgpu.last_progress : std::max(vgpu.last_progress, vgpu.device->busy_until);
  view.stuck = now - waited_since > kStuckAfter;
  // Threads of a paused vGPU wait until it is resumed, and not for GPU time that a policy could give.
  vgpu.threads_wait = sample.waiting > 0 && !vgpu.paused;
  view.waiting = view.stuck || vgpu.paused ? 0 : sample.waiting;
  view.in_flight = view.stuck ? 0 : sample.in_flight;
  if ((busy || spent != 0) && !view.stuck) view.last_active = now;
  if (vgpu.resting() && (busy || spent != 0 || beyond)) vgpu.device->woken.push_back(&vgpu);
}

void NodeEngine::Redecide(Instant now, Actions& actions) {
  for (auto& device : devices_) Decide(now, *device, actions);
}

void NodeEngine::Decide(Instant now, Device_& device, Actions& actions) {
  const bool marked = device.Mark(now);
  if (device.sales->mode() != core::OversellMode::kOff) SeeSales(now, device, actions);
  if (now >= device.promises_at) SeePromises(now, device, actions);
  CapRates(now, device, actions);
  const bool kept = device.policy->keeps_caps();
  for (std::size_t i = 0; i < device.active; ++i) {
    core::VgpuView& view = device.views[i];
    Vgpu_& vgpu = *device.owners[i];
    view.held = false;
    if (kept || view.cap >= Share::Whole()) {
      vgpu.cap_bucket = {};  // what a vGPU uses without a cap is no debt under a later cap
      continue;
    }
    vgpu.cap_level = vgpu.cap_bucket.Level(now, view.cap, view.used);
    view.held = vgpu.cap_level <= Duration{0};
  }
  device.verdicts.resize(device.active);
  const Instant look_again =
      device.policy->Decide({now, device.Active(), looks_.late(), device.Resting()}, device.verdicts);
  actions.look_again = std::min(actions.look_again, look_again);
  actions.asleep = actions.asleep && look_again == core::kNever;
  std::size_t waiters = 0;
  for (std::size_t i = 0; i < device.active; ++i) {
    if (kept) device.views[i].held = device.verdicts[i].held;
    waiters += Waits(device.views[i]) ? 1 : 0;
  }
  for (std::size_t i = 0; i < device.active; ++i) {
    Apply(*device.owners[i], device.verdicts[i], now, actions);
    const bool others_wait = waiters > (Waits(device.views[i]) ? 1u : 0u);
    AskForEnd(*device.owners[i], others_wait && device.verdicts[i].frees_device, actions);
  }
  if (marked) device.LetRest(now, actions);
}

/// While another vGPU waits for the end of this one's work, the agents of this vGPU ring the doorbell at that end. The
/// device then idles only until the poll that follows, and not until the next tick.
void NodeEngine::AskForEnd(Vgpu_& vgpu, bool wanted, Actions& actions) {
  if (wanted == vgpu.ring_at_end) return;
  vgpu.ring_at_end = wanted;
  actions.ring_at_end.push_back({vgpu.id, wanted});
}

void NodeEngine::Apply(Vgpu_& vgpu, core::Verdict verdict, Instant now, Actions& actions) {
  const core::VgpuView& view = vgpu.View();
  if (view.cap < Share::Whole() && !vgpu.device->policy->keeps_caps()) {
    const Duration level = vgpu.cap_level;
    verdict.allowance = verdict.admission == core::Admission::kGated ? std::min(verdict.allowance, level) : level;
    verdict.admission = core::Admission::kGated;
    if (core::Competes(view, now, core::kCapBurst) || vgpu.threads_wait) {
      actions.look_again = std::min(actions.look_again, now + kCapTick);
      actions.asleep = false;
    }
  }
  const proto::GateMode mode = vgpu.paused                                    ? proto::GateMode::kPaused
                               : verdict.admission == core::Admission::kGated ? proto::GateMode::kGated
                                                                              : proto::GateMode::kOpen;
  // Memory that is not elastic changes with the settings alone, which clear `published`.
  const bool elastic = vgpu.device->memory || vgpu.memory.elastic;
  if (!vgpu.published || mode != vgpu.mode || verdict.frame_interval != vgpu.frame_interval ||
      verdict.sync != vgpu.sync || verdict.start != vgpu.start || Apart(view.cap, vgpu.published_cap) ||
      (elastic && MemoryOf(vgpu) != vgpu.memory)) {
    vgpu.mode = mode;
    vgpu.frame_interval = verdict.frame_interval;
    vgpu.sync = verdict.sync;
    vgpu.start = verdict.start;
    vgpu.published_cap = view.cap;
    vgpu.memory = MemoryOf(vgpu);
    vgpu.published = true;
    actions.publish.push_back({.vgpu = vgpu.id,
                               .mode = mode,
                               .frame_interval = verdict.frame_interval,
                               .sync = static_cast<proto::FrameSync>(verdict.sync),
                               .start = static_cast<proto::FrameStart>(verdict.start),
                               .cap = view.cap,
                               .memory = vgpu.memory});
  }
  if (mode != proto::GateMode::kGated) return;
  // Computed modulo 2^64, as the atomic addition of the gate is: a tenant may have written any value there.
  const std::int64_t allowance_ns = vgpu.ReportOf(verdict.allowance);
  const auto delta = static_cast<std::int64_t>(static_cast<std::uint64_t>(allowance_ns) -
                                               static_cast<std::uint64_t>(vgpu.expected_allowance_ns));
  const bool wake = vgpu.threads_wait && verdict.allowance > Duration{0};
  if (delta == 0 && !wake) return;
  vgpu.expected_allowance_ns = allowance_ns;
  actions.grant.push_back({vgpu.id, delta, wake});
}

std::unique_ptr<core::Policy> NodeEngine::Make(const core::PolicyEntry& entry,
                                               const core::PolicyParams& checked) const {
  return maker_ ? maker_(entry, checked) : entry.make(checked);
}

Result<NodeEngine::Vgpu_*> NodeEngine::Get(VgpuId id) const {
  const auto found = vgpus_.find(id);
  if (found == vgpus_.end()) return NoVgpu(id);
  return found->second.get();
}

/// Null for an unknown vGPU.
NodeEngine::Vgpu_* NodeEngine::Find(VgpuId id) const {
  const auto found = vgpus_.find(id);
  return found != vgpus_.end() ? found->second.get() : nullptr;
}

Result<NodeEngine::Device_*> NodeEngine::DeviceNamed(std::string_view name) const {
  if (name.empty()) return devices_.front().get();
  std::string known;
  for (const auto& device : devices_) {
    if (device->spec.name == name) return device.get();
    known += (known.empty() ? "" : ", ") + device->spec.name;
  }
  return Fail(Errc::kNotFound, fmt::format("no device named '{}'; existing: {}", name, known));
}

}  // namespace weir::engine
