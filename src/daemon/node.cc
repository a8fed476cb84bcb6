// SPDX-License-Identifier: Apache-2.0
// The node's loop: polling gates, applying actions, housekeeping.
#include "daemon/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>
#include <cstdio>
#include <utility>

#include "daemon/tenancy.h"
#include "platform/clock.h"
#include "platform/files.h"
#include "platform/process.h"
#include "proto/drain_list.h"

namespace weir::daemon {
namespace {

/// The reason of all drain requests of the engine, for users.
constexpr const char* kWhyToLeave = "several vGPUs of its device are overloaded";

std::chrono::steady_clock::time_point ToSteady(Instant t) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(NsOf(t)));  // both are CLOCK_MONOTONIC here
}

std::int64_t UtcNs() {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<engine::DeviceSpec> SpecsOf(const std::vector<DeviceSetup>& devices) {
  std::vector<engine::DeviceSpec> specs;
  specs.reserve(devices.size());
  for (const DeviceSetup& device : devices) specs.push_back(device.spec);
  return specs;
}

}  // namespace

Node::Node(boost::asio::io_context& loop, std::string run_dir, std::vector<DeviceSetup> devices,
           std::function<void(const SavedNode&)> save, OwnUsers users)
    : loop_(loop),
      run_dir_(std::move(run_dir)),
      devices_(std::move(devices)),
      users_(loop, run_dir_, std::move(users)),
      save_(std::move(save)),
      engine_(SpecsOf(devices_)),
      began_(platform::Now()),
      look_timer_(loop),
      housekeeping_timer_(loop),
      places_(platform::FileLimit()) {
  Housekeeping();
}

Node::~Node() = default;

// -- Polling ---------------------------------------------------------------------------------------------------------

void Node::LookAt(Instant when) {
  if (when == core::kNever) {
    look_at_ = when;
    look_timer_.cancel();
    return;
  }
  look_at_ = std::max(when, looked_ + core::kLookSpacing);
  look_timer_.expires_at(ToSteady(look_at_));
  look_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Look();
  });
}

void Node::LookNow() {
  const Instant now = platform::Now();
  if (look_at_ > now) LookAt(now);
}

void Node::Look() {
  ++looks_;
  const Instant now = platform::Now();
  looked_ = now;
  samples_.clear();
  std::erase_if(sampled_, [&](Tenancy* tenancy) {
    if (!tenancy->gate->processes().empty()) Sample(now, *tenancy);
    if (!tenancy->resting && !tenancy->gate->processes().empty()) return false;
    tenancy->rests_at_ns = tenancy->gate->AllowanceNs();
    tenancy->sampled = false;
    return true;
  });
  SampleMemory();
  static_cast<void>(engine_.Step(now, engine::GatesSampled{samples_, memory_samples_}, actions_));
  Carry();
  // Before the daemon stops polling, or polls for sales or memory only, it requests doorbells and then polls once more.
  // The last poll sees programs that entered before their agents saw the request.
  const bool asleep = actions_.asleep;
  const bool asked = WantEntryBells(asleep) || std::exchange(bells_asked_, false);
  LookAt(asleep && asked ? now : actions_.look_again);
}

void Node::Sample(Instant now, const Tenancy& tenancy) {
  engine::GateSample sample{.vgpu = tenancy.saved.id, .allowance_ns = tenancy.gate->AllowanceNs()};
  sample.forged = tenancy.gate->TakeForgedAllowances();
  bool moved = false;
  for (const auto& [process_id, process] : tenancy.gate->processes()) {
    sample.waiting += process->Waiting();
    sample.in_flight += process->InFlight();
    sample.reserved_ns += process->ReservedNs();  // each is clamped, so the sum of kProcessesPerVgpuMax fits
    moved |= process->Observe(NsOf(now));
  }
  sample.runs_on = sample.in_flight > 0 && !moved;
  samples_.push_back(sample);
}

/// Makes the next poll sample the gate. The gate of a resting vGPU is sampled once for each call.
void Node::SampleNext(Tenancy& tenancy) {
  if (std::exchange(tenancy.sampled, true)) return;
  sampled_.insert(
      std::ranges::lower_bound(sampled_, tenancy.saved.id, {}, [](const Tenancy* t) { return t->saved.id; }), &tenancy);
}

void Node::NoteAttached(Tenancy& tenancy) {
  if (std::exchange(tenancy.attached, true)) return;
  attached_.insert(
      std::ranges::lower_bound(attached_, tenancy.saved.id, {}, [](const Tenancy* t) { return t->saved.id; }),
      &tenancy);
}

/// The doorbell is requested before the last sample: a program that enters in between is in the sample or rings.
void Node::SetResting(Tenancy& tenancy, bool resting) {
  tenancy.resting = resting;
  if (tenancy.WantBell(proto::kRingAtEntry, resting && tenancy.mode == proto::GateMode::kGated))
    bells_asked_ |= resting;
  if (!tenancy.gate->processes().empty()) SampleNext(tenancy);
}

/// Combines the statistics of each vGPU's executors (usually one); processes that are not executors are ignored.
void Node::SampleMemory() {
  memory_samples_.clear();
  if (!engine_.elastic()) return;
  for (const Tenancy* tenancy : attached_) {
    engine::MemorySample sample{.vgpu = tenancy->saved.id};
    for (const ProcessId executor : tenancy->executors) {
      const auto process = tenancy->gate->processes().find(executor);
      if (process == tenancy->gate->processes().end()) continue;
      const proto::ExecutorStatistics one = process->second->Memory();
      sample.done = sample.done && one.order_done == tenancy->gate->memory_order();
      proto::Combine(sample.stats, one);
    }
    if (!tenancy->executors.empty()) memory_samples_.push_back(sample);
  }
}

bool Node::WantEntryBells(bool wanted) {
  bool changed = false;
  for (Tenancy* tenancy : sampled_)
    if (!tenancy->resting)
      changed |= tenancy->WantBell(proto::kRingAtEntry, wanted && tenancy->mode == proto::GateMode::kGated);
  return changed;
}

Status Node::TryStep(const engine::Event& event) {
  Status status = engine_.Step(platform::Now(), event, actions_);
  if (!status) return status;
  Carry();
  LookNow();
  return status;
}

void Node::Step(const engine::Event& event) { static_cast<void>(TryStep(event)); }

void Node::Carry() {
  for (const engine::Publish& publish : actions_.publish) {
    const auto found = tenancies_.find(publish.vgpu);
    if (found == tenancies_.end()) continue;
    found->second->mode = publish.mode;
    found->second->gate->Publish({.mode = publish.mode,
                                  .frame_interval_ns = publish.frame_interval.count(),
                                  .frame_sync = publish.sync,
                                  .frame_start = publish.start,
                                  .cap_ppm = publish.cap.ppm,
                                  .memory_limit_slots = publish.memory.limit,
                                  .memory_elastic = publish.memory.elastic,
                                  .memory_here_slots = publish.memory.here,
                                  .memory_max_slots = publish.memory.max});
  }
  for (const engine::Tell& tell : actions_.tell) {
    const auto found = tenancies_.find(tell.vgpu);
    if (found == tenancies_.end()) continue;
    // A process that does not read its messages is treated as dead. It is detached once this event is handled.
    for (const ProcessId deaf : found->second->gate->Tell(tell.command, tell.argument))
      boost::asio::post(loop_, [this, vgpu = tell.vgpu, deaf] {
        if (const auto tenancy = tenancies_.find(vgpu); tenancy != tenancies_.end()) Detach(*tenancy->second, deaf);
      });
  }
  for (const engine::AllowanceGrant& grant : actions_.grant) {
    const auto found = tenancies_.find(grant.vgpu);
    if (found == tenancies_.end()) continue;
    if (grant.delta_ns != 0) found->second->gate->Grant(grant.delta_ns);
    if (grant.wake) found->second->gate->WakeNext();
  }
  for (const engine::RingAtEnd& ring : actions_.ring_at_end)
    if (const auto found = tenancies_.find(ring.vgpu); found != tenancies_.end())
      found->second->WantBell(proto::kRingAtEnd, ring.wanted);
  for (const engine::Rest& rest : actions_.rest)
    if (const auto found = tenancies_.find(rest.vgpu); found != tenancies_.end())
      SetResting(*found->second, rest.resting);
  for (const engine::EndExecutors& end : std::exchange(actions_.end, {})) {
    const auto found = tenancies_.find(end.vgpu);
    if (found != tenancies_.end()) found->second->executor->Kill();
  }
  for (const engine::Decision& decision : actions_.decisions) Note(engine::NoteOf(decision));
  actions_.decisions.clear();
  for (const engine::DrainChange& ask : std::exchange(actions_.leave, {})) {
    const auto found = tenancies_.find(ask.vgpu);
    if (portals_ == nullptr || found == tenancies_.end()) continue;
    if (ask.wanted)
      portals_->Ask(found->second->saved.name, kWhyToLeave);
    else
      portals_->TakeBack(found->second->saved.name);
  }
}

Status Node::ListenForPortals() {
  WEIR_TRY(portals_, PortalLine::Listen(
                         loop_, run_dir_ + "/" + proto::kPortalsSocket,
                         [this](engine::Note note) { Note(std::move(note)); }, users_.Portals()));
  return Ok();
}

void Node::Note(engine::Note note) {
  if (restoring_) return;
  if (note.device.empty()) note.device = devices_.front().spec.name;
  events_.Add(platform::Now(), UtcNs(), std::move(note));
}

// -- Housekeeping ----------------------------------------------------------------------------------------------------

// A vGPU without processes costs nothing here: no process reads its heartbeat. A step applies actions, which may change
// attached_, so the steps come after the loop over it.
void Node::Housekeeping() {
  const Instant now = platform::Now();
  bool moved = false;
  std::vector<engine::ProcessDraws> drawing;
  std::erase_if(attached_, [&](Tenancy* tenancy) {
    tenancy->gate->Beat(NsOf(now));
    Drain(*tenancy);
    PublishExecutorsMemory(*tenancy);
    NoteMemoryRefused(now, *tenancy);
    for (const auto& [process_id, process] : tenancy->gate->processes())
      if (process->ObserveDraws()) drawing.push_back({tenancy->saved.id, process_id, process->Draws()});
    tenancy->pending.DropLate(now);
    EndIfWithoutGate(now, *tenancy);
    // Agents of an open gate do not ring, and a tenant's agent is not trusted to ring.
    if (tenancy->resting && !tenancy->sampled && tenancy->Moved()) {
      SampleNext(*tenancy);
      moved = true;
    }
    if (!tenancy->gate->processes().empty() || !tenancy->pending.entries().empty()) return false;
    if (tenancy->gate_absence.counts()) return false;
    tenancy->attached = false;
    return true;
  });
  for (const engine::ProcessDraws& draws : drawing) Step(draws);
  if (moved) LookNow();
  for (const VgpuId id : std::exchange(leaving_, {})) Erase(id);
  if (look_at_ == core::kNever) Look();
  housekeeping_timer_.expires_after(kHousekeeping);
  housekeeping_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) Housekeeping();
  });
}

void Node::Drain(Tenancy& tenancy) {
  drained_.frames.clear();
  drained_.lost = drained_.bad = 0;
  const std::int64_t now_ns = platform::NowNs();
  for (const auto& [id, process] : tenancy.gate->processes()) process->Drain(now_ns, drained_);
  if (drained_.frames.empty() && drained_.lost == 0 && drained_.bad == 0) return;
  frames_done_.clear();
  const double scale = engine_.ReportScale(tenancy.saved.id);
  for (gate::HostFrame& frame : drained_.frames) {
    frame.gpu_ns = std::min(static_cast<std::int64_t>(static_cast<double>(frame.gpu_ns) * scale), gate::kBelievableNs);
    tenancy.frames.Add(frame);
    frames_done_.push_back({.begin = InstantFromNs(frame.begin_ns),
                            .present = InstantFromNs(frame.present_ns),
                            .end = InstantFromNs(frame.end_ns),
                            .gpu = Duration{frame.gpu_ns},
                            .start_delay = Duration{frame.start_delay_ns},
                            .wait = Duration{frame.wait_ns},
                            .pace = Duration{frame.pace_ns},
                            .took = Duration{frame.end_ns - frame.submit_ns},
                            .predicted = Duration{frame.predicted_ns},
                            .loop = std::uint64_t{static_cast<std::uint32_t>(frame.pid)} << 32 | frame.surface,
                            .count = frame.tasks,
                            .present_follows = frame.present_follows});
  }
  engine::Actions none;
  static_cast<void>(engine_.Step(
      InstantFromNs(now_ns), engine::FramesDone{tenancy.saved.id, frames_done_, drained_.lost, drained_.bad}, none));
}

// -- Attaching and detaching -----------------------------------------------------------------------------------------

void Node::OnConnection(Tenancy& tenancy) {
  auto connection = tenancy.gate->Accept([&](pid_t pid) { return IsExecutor(tenancy, pid); });
  if (!connection && connection.error().code == Errc::kResourceExhausted) {
    // Waiting programs stay in the queue and attach once descriptors are free.
    if (accept_pause_.Failed(platform::Now()))
      std::fprintf(stderr, "weir: programs can't attach for now: %s\n", connection.error().message.c_str());
    return tenancy.listener_watch->Pause(platform::AcceptPause::kPause);
  }
  if (!connection) return;
  const auto peer = platform::PeerOf(connection->get());
  if (!peer) return;
  const int fd = connection->get();
  const std::uint64_t number =
      tenancy.pending.Add(platform::Now(), peer->uid, {.connection = std::move(*connection), .watch = nullptr});
  NoteAttached(tenancy);
  tenancy.pending.entries().back().connection.watch =
      std::make_unique<FdWatch>(loop_, fd, [this, &tenancy, number] { OnHello(tenancy, number); });
}

/// True for the child that this daemon has started and for executors that an earlier daemon started.
bool Node::IsExecutor(const Tenancy& tenancy, pid_t pid) {
  return tenancy.executor && (tenancy.executor->pid() == pid || tenancy.executor->Started(pid));
}

gate::Places Node::PlacesOf(const Tenancy& tenancy, pid_t asks) {
  return {.most = places_.For(tenancy.gate->processes().size(), processes(), tenancies_.size()),
          .executor_pid = IsExecutor(tenancy, asks) ? asks : 0};
}

void Node::NoteFull(Tenancy& tenancy, std::string why) {
  const Instant now = platform::Now();
  if (tenancy.full_said && now - *tenancy.full_said < kFullSaidEvery) return;
  tenancy.full_said = now;
  Note({.device = tenancy.saved.device,
        .kind = "full",
        .vgpu = tenancy.saved.name,
        .text = "a program waits until another one ends: " + std::move(why)});
}

/// Tells the vGPU's programs how much device memory its executors use. It counts under the same limit.
void Node::PublishExecutorsMemory(Tenancy& tenancy) {
  Bytes sum;
  for (const ProcessId executor : tenancy.executors) {
    const auto at = tenancy.gate->processes().find(executor);
    if (at == tenancy.gate->processes().end()) continue;
    // What elastic memory has evicted is in host memory.
    sum.count += (tenancy.gate->memory_elastic() ? at->second->Memory().resident : at->second->Use().memory).count;
  }
  tenancy.gate->SetExecutorsMemory(sum);
}

/// Executors of an earlier daemon are left alone: they may be of a version that attaches with the next command only.
void Node::EndIfWithoutGate(Instant now, Tenancy& tenancy) {
  const pid_t pid = tenancy.executor ? tenancy.executor->pid() : 0;
  const bool attached = std::ranges::any_of(tenancy.executors, [&](const ProcessId id) {
    const auto process = tenancy.gate->processes().find(id);
    return process != tenancy.gate->processes().end() && process->second->pid() == pid;
  });
  const std::uint64_t run = pid == 0 ? 0 : tenancy.executor->starts();
  if (tenancy.gate_absence.Look(now, run, attached)) tenancy.executor->EndWithoutGate();
}

void Node::CountMemoryRefused(Tenancy& tenancy, gate::ProcessGate& process) {
  if (process.api() != proto::Api::kOpenCl || tenancy.executors.contains(process.id()))
    tenancy.memory_refused += process.TakeMemoryRefused();
}

/// Counts what the vGPU's executors and programs refused for lack of memory, and reports it, but not each of many in a
/// row.
void Node::NoteMemoryRefused(Instant now, Tenancy& tenancy) {
  for (const auto& [id, process] : tenancy.gate->processes()) CountMemoryRefused(tenancy, *process);
  if (tenancy.memory_refused == tenancy.refused_said) return;
  if (tenancy.refused_at && now - *tenancy.refused_at < kRefusedSaidEvery) return;
  const std::uint64_t more = tenancy.memory_refused - std::exchange(tenancy.refused_said, tenancy.memory_refused);
  tenancy.refused_at = now;
  const Bytes limit = tenancy.saved.settings.memory_max;
  const char* const plural = more == 1 ? "" : "s";
  Note({.device = tenancy.saved.device,
        .kind = "no-memory",
        .vgpu = tenancy.saved.name,
        .text = fmt::format(
            "no memory for {} allocation{} or command{} of its programs; {}", more, plural, plural,
            limit.count > 0 ? fmt::format("its limit is {} MiB", limit.count >> 20) : "it has no limit of its own")});
}

void Node::OnHello(Tenancy& tenancy, std::uint64_t number) {
  auto pending = tenancy.pending.Take(number);
  if (!pending) return;
  pending->watch.reset();
  const ProcessId id{next_process_++};
  tenancy.gate->Beat(platform::NowNs());
  const auto peer = platform::PeerOf(pending->connection.get());
  auto process = tenancy.gate->Welcome(std::move(pending->connection), id, PlacesOf(tenancy, peer ? peer->pid : 0));
  if (!process) {  // Welcome has sent the reason to the program
    if (process.error().code == Errc::kResourceExhausted) NoteFull(tenancy, std::move(process).error().message);
    return;
  }
  tenancy.socket_watches[id] =
      std::make_unique<FdWatch>(loop_, (*process)->socket(), [this, &tenancy, id] { OnSocket(tenancy, id); });
  if ((*process)->api() == proto::Api::kOpenCl && IsExecutor(tenancy, (*process)->pid())) tenancy.executors.insert(id);
  EndIfWithoutGate(platform::Now(), tenancy);  // from now on it is looked at
  tenancy.WantBell(proto::kRingAtEntry, false);
  SampleNext(tenancy);
  ++layout_;
  Step(engine::ProcessAttached{tenancy.saved.id, id, proto::Draws((*process)->api())});
}

void Node::OnSocket(Tenancy& tenancy, ProcessId id) {
  const auto found = tenancy.gate->processes().find(id);
  if (found != tenancy.gate->processes().end() && !found->second->ReadAcks()) Detach(tenancy, id);
}

void Node::Detach(Tenancy& tenancy, ProcessId id) {
  const auto found = tenancy.gate->processes().find(id);
  if (found == tenancy.gate->processes().end()) return;
  Drain(tenancy);
  SampleNext(tenancy);
  Look();  // charge its use so far to this vGPU: a gate without processes is not polled
  const Duration unreported{found->second->UnreportedNs(platform::NowNs())};
  CountMemoryRefused(tenancy, *found->second);
  tenancy.socket_watches.erase(id);
  tenancy.executors.erase(id);
  owners_.Ended(platform::Now(), found->second->pid(), {tenancy.saved.id, id});
  tenancy.gate->Detach(id);
  ++layout_;
  Step(engine::ProcessDetached{tenancy.saved.id, id, unreported});
  if (tenancy.owner_ended && tenancy.gate->processes().empty()) leaving_.push_back(tenancy.saved.id);
}

void Node::OwnerEnded(VgpuId id) {
  const auto found = tenancies_.find(id);
  if (found == tenancies_.end()) return;
  found->second->owner_ended = true;
  found->second->owner_watch.reset();
  if (found->second->gate->processes().empty()) leaving_.push_back(id);  // otherwise Detach does it
}

}  // namespace weir::daemon
