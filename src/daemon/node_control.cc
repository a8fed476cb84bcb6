// SPDX-License-Identifier: Apache-2.0
// The operations of the node that the control API calls.
#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "daemon/node.h"
#include "daemon/tenancy.h"
#include "platform/clock.h"
#include "platform/process.h"

namespace weir::daemon {
namespace {

std::string Percent(Share share) { return fmt::format("{:.0f} %", share.Fraction() * 100); }

std::string ParamsText(const std::string& policy, const core::PolicyParams& params) {
  std::string text;
  for (const auto& [name, value] : params) {
    const std::string_view choice = core::NameOfChoice(policy, name, value);
    text += choice.empty() ? fmt::format(", {}={:g}", name, value) : fmt::format(", {}={}", name, choice);
  }
  return text;
}

proto::CpuMask MaskOf(const std::vector<int>& cpus) {
  proto::CpuMask mask{};
  for (const int cpu : cpus)
    if (cpu >= 0 && static_cast<std::size_t>(cpu) < mask.size() * 64)
      mask[static_cast<std::size_t>(cpu) / 64] |= 1ULL << (cpu % 64);
  return mask;
}

}  // namespace

DeviceSetup& Node::SetupNamed(const std::string& name) {
  const auto found = std::ranges::find(devices_, name, [](const DeviceSetup& device) { return device.spec.name; });
  return name.empty() || found == devices_.end() ? devices_.front() : *found;
}

double Node::copy_bytes_per_s(const std::string& device) { return SetupNamed(device).executors.copy_bytes_per_s; }

std::vector<NotRestored::Item> Node::Restore(const SavedNode& saved) {
  not_restored_ = {};
  restoring_ = true;
  for (const SavedPolicy& policy : saved.policies)
    if (const Status set = TryStep(engine::SetPolicy{policy.device, policy.policy, policy.params}); !set)
      not_restored_.Keep(policy, set.error().message);
  // Restored before vGPUs exist, so that existing sales are not checked again.
  for (const SavedOversell& sold : saved.oversell) {
    const auto mode = core::ModeNamed(sold.mode);
    const Status set = mode ? TryStep(engine::SetOversell{sold.device, *mode, sold.params}) : Status(mode.error());
    if (!set) not_restored_.Keep(sold, set.error().message);
  }
  for (const SavedMemory& memory : saved.memory)
    if (const Status set = SetMemory(memory.device, Bytes{memory.size_bytes}, memory.params, memory.copy_bytes_per_s);
        !set)
      not_restored_.Keep(memory, set.error().message);
  for (const SavedVgpu& vgpu : saved.vgpus) RestoreVgpu(vgpu);
  restoring_ = false;
  std::set<std::string> names;  // those that can't be restored keep their files, too
  for (const SavedVgpu& vgpu : saved.vgpus) names.insert(vgpu.name);
  users_.KeepOnly(names);
  if (!saved.vgpus.empty())
    Note({.device = "",
          .kind = "restored",
          .vgpu = "",
          .text = fmt::format("{} of {} vGPUs are back", tenancies_.size(), saved.vgpus.size())});
  Save();
  return not_restored_.Items();
}

void Node::RestoreVgpu(const SavedVgpu& vgpu) {
  if (vgpu.ephemeral) {
    const auto started = platform::StartTimeOf(vgpu.owner_pid);
    if (!started || *started != vgpu.owner_started) return;  // its owner has ended meanwhile
  }
  const auto opened = Open(vgpu);
  if (opened) {
    if (vgpu.paused) Step(engine::PauseVgpu{*opened, true});
    return;
  }
  not_restored_.Keep(vgpu, opened.error().message);
  engine_.KeepId(vgpu.id);
}

// Creates the vGPU in the engine and then its gate. If the gate fails, the engine removes the vGPU again.
Result<VgpuId> Node::Open(const SavedVgpu& saved) {
  Status created = engine_.Step(platform::Now(),
                                engine::CreateVgpu{.name = saved.name,
                                                   .device = saved.device,
                                                   .settings = saved.settings,
                                                   .id = saved.id,
                                                   .sale = saved.sale,
                                                   .restored = restoring_},
                                actions_);
  if (!created) return std::move(created).error();
  const VgpuId id = actions_.created;
  auto tenancy = std::make_unique<Tenancy>();
  tenancy->saved = saved;
  tenancy->saved.id = id;
  const DeviceSetup& device = SetupNamed(saved.device);
  auto gate = gate::VgpuGate::Make(id, run_dir_ + "/vgpu/" + saved.name + ".sock", saved.owner_uid,
                                   MaskOf(device.spec.cpus), platform::NowNs());
  if (!gate) {
    Carry();
    Step(engine::RemoveVgpu{id});
    return std::move(gate).error();
  }
  tenancy->gate = std::move(*gate);
  auto executor = ExecutorHost::Listen(loop_, run_dir_ + "/opencl/" + saved.name + ".sock", device.executors, users_,
                                       {.vgpu = saved.name,
                                        .attach = tenancy->gate->socket_path(),
                                        .owner = saved.owner_uid,
                                        .ephemeral = saved.ephemeral,
                                        .partition = saved.settings.partition});
  if (!executor) {
    Carry();
    Step(engine::RemoveVgpu{id});
    return std::move(executor).error();
  }
  tenancy->executor = std::move(*executor);
  Tenancy& placed = *tenancy;
  placed.listener_watch =
      std::make_unique<FdWatch>(loop_, placed.gate->listener(), [this, &placed] { OnConnection(placed); });
  placed.doorbell_watch = std::make_unique<FdWatch>(loop_, placed.gate->doorbell(), [this, &placed] {
    placed.gate->AnswerDoorbell();
    if (!placed.gate->processes().empty()) SampleNext(placed);
    LookNow();
  });
  if (saved.ephemeral) {
    auto owner = platform::OpenPidFd(saved.owner_pid);
    if (owner) {
      placed.owner = std::move(*owner);
      placed.owner_watch = std::make_unique<FdWatch>(loop_, placed.owner.get(), [this, id] { OwnerEnded(id); });
    } else {
      placed.owner_ended = true;
    }
  }
  tenancies_[id] = std::move(tenancy);
  Carry();
  LookNow();
  return id;
}

Result<VgpuReport> Node::Create(const CreateRequest& request) {
  SavedVgpu saved{.id = {},
                  .name = request.name,
                  .device = request.device,
                  .settings = request.settings,
                  .owner_uid = request.owner_uid,
                  .ephemeral = request.ephemeral,
                  .owner_pid = request.ephemeral ? request.owner_pid : 0,
                  .sale = request.best_effort ? core::Sale::kBestEffort : core::Sale::kGuaranteed};
  if (request.ephemeral) {
    if (saved.name.empty()) saved.name = fmt::format("program-{}", request.owner_pid);
    WEIR_TRY(saved.owner_started, platform::StartTimeOf(request.owner_pid));
  }
  // The files of a vGPU that could not be restored are its owner's, and an ephemeral vGPU doesn't use them. They are
  // moved away first, because Open makes the new vGPU's home. They come back if Open fails: the vGPU stays kept then.
  const SavedVgpu* const before = not_restored_.Vgpu(saved.name);
  const bool others_files = before != nullptr && (before->owner_uid != saved.owner_uid || saved.ephemeral);
  ExecutorUsers::Aside aside;
  if (others_files) {
    WEIR_TRY(aside, users_.MoveAside(saved.name));
  }
  const auto opened = Open(saved);
  if (!opened) {
    users_.PutBack(aside, saved.name);
    if (opened.error().code == Errc::kResourceExhausted)
      Note({.device = saved.device, .kind = "refused", .vgpu = saved.name, .text = opened.error().message});
    return opened.error();
  }
  const VgpuId id = *opened;
  users_.ForgetAside(aside);
  not_restored_.DropVgpu(saved.name);
  NoteSold(id);
  Save();
  return ReportOf(platform::Now(), *tenancies_.at(id));
}

Result<VgpuReport> Node::Set(const std::string& name, const engine::VgpuSettings& settings) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  if (Status set = TryStep(engine::SetVgpu{tenancy->saved.id, settings}); !set) {
    if (set.error().code == Errc::kResourceExhausted)
      Note({.device = tenancy->saved.device, .kind = "refused", .vgpu = name, .text = set.error().message});
    return set.error();
  }
  const bool other_cap = settings.cap != tenancy->saved.settings.cap;
  const std::string changed = engine::ChangedSettingsText(tenancy->saved.settings, settings);
  tenancy->saved.settings = settings;
  tenancy->executor->SetPartition(settings.partition);
  if (!changed.empty()) Note({.device = tenancy->saved.device, .kind = "changed", .vgpu = name, .text = changed});
  if (other_cap) NoteSold(tenancy->saved.id);
  Save();
  return ReportOf(platform::Now(), *tenancy);
}

Result<VgpuReport> Node::Pause(const std::string& name, bool paused) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  WEIR_TRY_STATUS(TryStep(engine::PauseVgpu{tenancy->saved.id, paused}));
  if (paused != std::exchange(tenancy->saved.paused, paused))
    Note({.device = tenancy->saved.device,
          .kind = paused ? "paused" : "resumed",
          .vgpu = name,
          .text = paused ? "its programs wait at their gates" : "its programs go on"});
  Save();
  return ReportOf(platform::Now(), *tenancy);
}

Result<Removed> Node::Remove(const std::string& name, bool force) {
  const auto found = Find(name);
  if (!found && not_restored_.DropVgpu(name)) {
    users_.Forget(name);
    Save();
    return Removed::kNotRestored;
  }
  WEIR_TRY(Tenancy * tenancy, found);
  const std::size_t attached = tenancy->gate->processes().size();
  if (attached > 0 && !force)
    return Fail(
        Errc::kBusy,
        fmt::format("'{}' has {} attached process{}; end {}, or remove it with --force (they continue unthrottled)",
                    name, attached, attached == 1 ? "" : "es", attached == 1 ? "it" : "them"));
  // A process that misses the message notices that its socket closes.
  static_cast<void>(tenancy->gate->Tell(proto::CommandKind::kDetach, 0));
  Erase(tenancy->saved.id);
  Save();
  return Removed::kVgpu;
}

Result<std::vector<std::string>> Node::ForgetDevice(const std::string& device) {
  std::vector<std::string> dropped = not_restored_.DropDevice(device);
  if (dropped.empty())
    return Fail(Errc::kNotFound, fmt::format("no setting is kept of a device named '{}'; 'weir status' lists, as not "
                                             "restored, what is kept",
                                             device));
  Save();
  return dropped;
}

void Node::Erase(VgpuId id) {
  const auto found = tenancies_.find(id);
  if (found == tenancies_.end()) return;
  const bool ephemeral = found->second->saved.ephemeral;
  const std::string device = found->second->saved.device, name = found->second->saved.name;
  const bool ended = found->second->owner_ended;
  found->second->executor->End();
  if (portals_ != nullptr) portals_->TakeBack(name);
  std::erase(attached_, found->second.get());
  std::erase(sampled_, found->second.get());
  tenancies_.erase(found);
  if (!ephemeral) users_.Forget(name);
  Step(engine::RemoveVgpu{id});
  Note({.device = device, .kind = "removed", .vgpu = name, .text = ended ? "its program has ended" : "as asked"});
  if (ephemeral) Save();
}

Status Node::SetPolicy(const std::string& device, const std::string& policy, const core::PolicyParams& params) {
  WEIR_TRY_STATUS(TryStep(engine::SetPolicy{device, policy, params}));
  not_restored_.DropPolicy(SetupNamed(device).spec.name);
  for (const engine::DeviceStatus& status : Devices())
    if (device.empty() || status.spec.name == device) {
      Note({.device = status.spec.name,
            .kind = "policy",
            .vgpu = "",
            .text = "the policy is " + status.policy + ParamsText(policy, status.params)});
      break;
    }
  Save();
  return Ok();
}

Status Node::SetOversell(const std::string& device, core::OversellMode mode, const core::PolicyParams& params) {
  WEIR_TRY_STATUS(TryStep(engine::SetOversell{device, mode, params}));
  not_restored_.DropOversell(SetupNamed(device).spec.name);
  Save();
  return Ok();
}

Status Node::SetMemory(const std::string& device, Bytes size, const core::PolicyParams& params,
                       double copy_bytes_per_s) {
  constexpr double kLinkMax = 1e15;
  if (!(copy_bytes_per_s >= 0 && copy_bytes_per_s <= kLinkMax))
    return Fail(Errc::kInvalidArgument,
                fmt::format("copies at {:g} bytes/s: give 0 (as fast as it goes) to {:g}", copy_bytes_per_s, kLinkMax));
  WEIR_TRY_STATUS(
      TryStep(engine::SetMemory{device, size, params, static_cast<std::uint32_t>(platform::UsableCpus().size())}));
  DeviceSetup& setup = SetupNamed(device);
  setup.executors.copy_bytes_per_s = copy_bytes_per_s;
  not_restored_.DropMemory(setup.spec.name);
  Save();
  return Ok();
}

Status Node::SeeDeviceMemory(const std::string& device, Bytes used) {
  return TryStep(engine::SeeDeviceMemory{device, used});
}

Status Node::SeeDeviceUse(const DeviceUse& use) {
  for (Tenancy* tenancy : attached_)
    if (!tenancy->gate->processes().empty()) SampleNext(*tenancy);
  Look();  // the reconciler compares the account with what processes have reported up to now
  std::map<pid_t, ProcessOwners::Owner> living;
  for (const Tenancy* tenancy : attached_) {
    if (SetupNamed(tenancy->saved.device).spec.name != use.device) continue;
    for (const auto& [process_id, process] : tenancy->gate->processes())
      living.emplace(process->pid(), ProcessOwners::Owner{tenancy->saved.id, process_id});
  }
  const std::vector<core::UseCounter> counters = owners_.CountersOf(platform::Now(), use.clients, living);
  WEIR_TRY_STATUS(TryStep(engine::SeeDeviceUse{use.device, {.busy = use.busy, .counters = counters}}));
  accounts_seen_[use.device] = platform::Now();
  return Ok();
}

Instant Node::AccountSeen(const std::string& device) const {
  const auto found = accounts_seen_.find(device);
  return found == accounts_seen_.end() ? Instant{} : found->second;
}

/// Logs how the vGPU is sold. Called after its creation and after a change of its ceiling.
void Node::NoteSold(VgpuId id) {
  const auto vgpu = engine_.Vgpu(platform::Now(), id);
  WEIR_CHECK(vgpu.has_value());
  for (const engine::DeviceStatus& device : Devices()) {
    if (device.spec.name != vgpu->device) continue;
    const bool off = device.oversell == core::OversellMode::kOff;
    Note({.device = vgpu->device,
          .kind = "sold",
          .vgpu = vgpu->name,
          .text = off ? fmt::format("a cap of {}; selling is off", Percent(vgpu->settings.cap))
                      : fmt::format("a ceiling of {}, {}; cap now {}", Percent(vgpu->settings.cap),
                                    core::NameOf(vgpu->sale), Percent(vgpu->cap_now))});
  }
}

void Node::Save() {
  ++layout_;
  if (restoring_) return;
  SavedNode saved;
  for (const engine::DeviceStatus& device : engine_.Devices(platform::Now())) {
    saved.policies.push_back({device.spec.name, device.policy, device.params});
    saved.oversell.push_back({device.spec.name, core::NameOf(device.oversell), device.oversell_params});
    if (device.memory.slots > 0)
      saved.memory.push_back({device.spec.name, device.memory.size * kSlotBytes.count, device.memory.params,
                              copy_bytes_per_s(device.spec.name)});
  }
  for (const auto& [id, tenancy] : tenancies_) {
    saved.vgpus.push_back(tenancy->saved);
    saved.vgpus.back().sale = engine_.SaleOf(id);  // the sale may change with the ceiling or the oversell mode
  }
  not_restored_.AddTo(saved);
  save_(saved);
}

Result<Node::Tenancy*> Node::Find(const std::string& name) {
  WEIR_TRY(const VgpuId id, engine_.Find(name));
  return tenancies_.at(id).get();
}

VgpuReport Node::ReportOf(Instant now, Tenancy& tenancy) {
  auto status = engine_.Vgpu(now, tenancy.saved.id);
  WEIR_CHECK(status.has_value());
  return ReportOf(tenancy, std::move(*status));
}

VgpuReport Node::ReportOf(Tenancy& tenancy, engine::VgpuStatus status) {
  VgpuReport report{.status = std::move(status),
                    .promise = engine_.Promise(tenancy.saved.id),
                    .attach = tenancy.gate->socket_path(),
                    .opencl = tenancy.executor->path(),
                    .environment = SetupNamed(tenancy.saved.device).environment,
                    .owner_uid = tenancy.saved.owner_uid,
                    .ephemeral = tenancy.saved.ephemeral,
                    .fail_opens = tenancy.gate->FailOpens(),
                    .executor_starts = tenancy.executor->starts(),
                    .executor_failures = tenancy.executor->failures(),
                    .memory_refused = tenancy.memory_refused,
                    .use = {},
                    .program_memory = {},
                    .processes = {}};
  for (const auto& [id, process] : tenancy.gate->processes()) {
    report.processes.push_back(process->Info());
    report.program_memory.count += report.processes.back().memory.count;
    report.waiting_threads += process->Waiting();
    if (!tenancy.executors.contains(id)) continue;  // statistics of processes that are not executors are ignored
    const gate::DeviceUse use = process->Use();
    report.use.work_items += use.work_items;
    report.use.memory.count += use.memory.count;
  }
  return report;
}

NodeSamples Node::Samples() const {
  const Instant now = platform::Now();
  return {.layout = layout_, .devices = engine_.Devices(now), .vgpus = engine_.Vgpus(now)};
}

Result<VgpuReport> Node::Vgpu(const std::string& name) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  Drain(*tenancy);
  return ReportOf(platform::Now(), *tenancy);
}

std::vector<VgpuReport> Node::Vgpus() {
  std::vector<VgpuReport> all;
  for (Tenancy* tenancy : attached_) Drain(*tenancy);
  for (engine::VgpuStatus& status : engine_.Vgpus(platform::Now())) {
    Tenancy& tenancy = *tenancies_.at(status.id);
    all.push_back(ReportOf(tenancy, std::move(status)));
  }
  return all;
}

std::vector<engine::DeviceStatus> Node::Devices() { return engine_.Devices(platform::Now()); }

Result<FrameLog::Slice> Node::Frames(const std::string& name, std::uint64_t after, std::uint64_t limit) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  Drain(*tenancy);
  return tenancy->frames.After(after, limit);
}

std::size_t Node::processes() const {
  std::size_t count = 0;
  for (const Tenancy* tenancy : attached_) count += tenancy->gate->processes().size();
  return count;
}

bool Node::InUse() const {
  for (const auto& [id, tenancy] : tenancies_) {
    if (!tenancy->gate->processes().empty() || !tenancy->pending.entries().empty()) return true;
    if (tenancy->saved.ephemeral && !tenancy->owner_ended) return true;
  }
  return false;
}

}  // namespace weir::daemon
