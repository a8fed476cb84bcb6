// SPDX-License-Identifier: Apache-2.0
// What the control API asks of the node.
#include <fmt/format.h>

#include "daemon/node.h"
#include "daemon/tenancy.h"
#include "platform/clock.h"
#include "platform/process.h"

namespace weir::daemon {

std::vector<std::string> Node::Restore(const SavedNode& saved) {
  std::vector<std::string> problems;
  restoring_ = true;
  for (const SavedPolicy& policy : saved.policies)
    if (const Status set = TryStep(engine::SetPolicy{policy.device, policy.policy, policy.params}); !set)
      problems.push_back("policy of " + policy.device + ": " + set.error().message);
  for (const SavedVgpu& vgpu : saved.vgpus) {
    if (vgpu.ephemeral) {
      const auto started = platform::StartTimeOf(vgpu.owner_pid);
      if (!started || *started != vgpu.owner_started) continue;  // its program has ended meanwhile
    }
    if (const auto opened = Open(vgpu); !opened)
      problems.push_back("vGPU " + vgpu.name + ": " + opened.error().message);
    else if (vgpu.paused)
      Step(engine::PauseVgpu{*opened, true});
  }
  restoring_ = false;
  Save();
  return problems;
}

// Makes the vGPU in the engine, then its gate. Without a gate the engine forgets it again.
Result<VgpuId> Node::Open(const SavedVgpu& saved) {
  Status created =
      engine_.Step(platform::Now(), engine::CreateVgpu{saved.name, saved.device, saved.settings, saved.id}, actions_);
  if (!created) return std::move(created).error();
  const VgpuId id = actions_.created;
  auto tenancy = std::make_unique<Tenancy>();
  tenancy->saved = saved;
  tenancy->saved.id = id;
  auto gate = gate::VgpuGate::Make(id, run_dir_ + "/vgpu/" + saved.name + ".sock", saved.owner_uid, device_cpus_,
                                   platform::NowNs());
  if (!gate) {
    Carry();
    Step(engine::RemoveVgpu{id});
    return std::move(gate).error();
  }
  tenancy->gate = std::move(*gate);
  auto executor = ExecutorHost::Listen(loop_, run_dir_ + "/opencl/" + saved.name + ".sock", executors_,
                                       {.vgpu = saved.name,
                                        .attach = tenancy->gate->socket_path(),
                                        .owner = saved.owner_uid,
                                        .ephemeral = saved.ephemeral});
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
                  .owner_pid = request.ephemeral ? request.owner_pid : 0};
  if (request.ephemeral) {
    if (saved.name.empty()) saved.name = fmt::format("program-{}", request.owner_pid);
    WEIR_TRY(saved.owner_started, platform::StartTimeOf(request.owner_pid));
  }
  WEIR_TRY(const VgpuId id, Open(saved));
  Save();
  return ReportOf(platform::Now(), *tenancies_.at(id));
}

Result<VgpuReport> Node::Set(const std::string& name, const engine::VgpuSettings& settings) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  WEIR_TRY_STATUS(TryStep(engine::SetVgpu{tenancy->saved.id, settings}));
  tenancy->saved.settings = settings;
  Save();
  return ReportOf(platform::Now(), *tenancy);
}

Result<VgpuReport> Node::Pause(const std::string& name, bool paused) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  WEIR_TRY_STATUS(TryStep(engine::PauseVgpu{tenancy->saved.id, paused}));
  tenancy->saved.paused = paused;
  Save();
  return ReportOf(platform::Now(), *tenancy);
}

Status Node::Remove(const std::string& name, bool force) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  const std::size_t attached = tenancy->gate->processes().size();
  if (attached > 0 && !force)
    return Fail(Errc::kBusy,
                fmt::format("'{}' has {} attached process{}; end {}, or remove it by force (they go on unthrottled)",
                            name, attached, attached == 1 ? "" : "es", attached == 1 ? "it" : "them"));
  static_cast<void>(tenancy->gate->Tell(proto::CommandKind::kDetach, 0));  // who doesn't hear it sees its socket close
  Erase(tenancy->saved.id);
  Save();
  return Ok();
}

void Node::Erase(VgpuId id) {
  const auto found = tenancies_.find(id);
  if (found == tenancies_.end()) return;
  const bool ephemeral = found->second->saved.ephemeral;
  found->second->executor->End();
  tenancies_.erase(found);
  Step(engine::RemoveVgpu{id});
  if (ephemeral) Save();
}

Status Node::SetPolicy(const std::string& device, const std::string& policy, const core::PolicyParams& params) {
  WEIR_TRY_STATUS(TryStep(engine::SetPolicy{device, policy, params}));
  Save();
  return Ok();
}

void Node::Save() {
  if (restoring_) return;
  SavedNode saved;
  for (const engine::DeviceStatus& device : engine_.Devices(platform::Now()))
    saved.policies.push_back({device.spec.name, device.policy, device.params});
  for (const auto& [id, tenancy] : tenancies_) saved.vgpus.push_back(tenancy->saved);
  save_(saved);
}

Result<Node::Tenancy*> Node::Find(const std::string& name) {
  WEIR_TRY(const VgpuId id, engine_.Find(name));
  return tenancies_.at(id).get();
}

VgpuReport Node::ReportOf(Instant now, Tenancy& tenancy) {
  auto status = engine_.Vgpu(now, tenancy.saved.id);
  WEIR_CHECK(status.has_value());
  VgpuReport report{.status = std::move(*status),
                    .attach = tenancy.gate->socket_path(),
                    .opencl = tenancy.executor->path(),
                    .owner_uid = tenancy.saved.owner_uid,
                    .ephemeral = tenancy.saved.ephemeral,
                    .fail_opens = tenancy.gate->FailOpens(),
                    .processes = {}};
  for (const auto& [id, process] : tenancy.gate->processes()) report.processes.push_back(process->Info());
  return report;
}

Result<VgpuReport> Node::Vgpu(const std::string& name) {
  WEIR_TRY(Tenancy * tenancy, Find(name));
  Drain(*tenancy);
  return ReportOf(platform::Now(), *tenancy);
}

std::vector<VgpuReport> Node::Vgpus() {
  std::vector<VgpuReport> all;
  for (const auto& [id, tenancy] : tenancies_) {
    Drain(*tenancy);
    all.push_back(ReportOf(platform::Now(), *tenancy));
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
  for (const auto& [id, tenancy] : tenancies_) count += tenancy->gate->processes().size();
  return count;
}

bool Node::InUse() const {
  for (const auto& [id, tenancy] : tenancies_) {
    if (!tenancy->gate->processes().empty() || !tenancy->pending.empty()) return true;
    if (tenancy->saved.ephemeral && !tenancy->owner_ended) return true;
  }
  return false;
}

}  // namespace weir::daemon
