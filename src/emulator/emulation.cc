// SPDX-License-Identifier: Apache-2.0
#include "emulator/emulation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace weir::emulator {
namespace {

namespace wire = proto::emulator;
using nlohmann::ordered_json;

constexpr std::uint32_t kIntervalMax = 1000;
/// Upper bound of the clients that one message of accounts lists, so that the message fits a packet.
constexpr int kAccountsMax = 64;

constexpr std::uint64_t QueueKey(std::uint32_t device, std::uint32_t queue) {
  return std::uint64_t{device} << 32 | queue;
}

wire::Completion CompletionOf(const core::DeviceCompletion& done) {
  return {.tag = done.command.tag,
          .began_ns = NsOf(done.began),
          .ended_ns = NsOf(done.ended),
          .busy_ns = static_cast<std::uint64_t>(done.busy.count()),
          .ending = done.lost ? wire::Ending::kLost : wire::Ending::kDone};
}

const char* NameOf(core::EngineKind engine) {
  switch (engine) {
    case core::EngineKind::kCompute: return "compute";
    case core::EngineKind::kCopyIn: return "copy-in";
    case core::EngineKind::kCopyOut: return "copy-out";
  }
  return "";
}

bool HasUse(const wire::ClientUse& use) { return use.compute_ns + use.copy_in_ns + use.copy_out_ns > 0; }

std::uint64_t Ns(Duration duration) { return static_cast<std::uint64_t>(duration.count()); }

using Answer = core::FaultyDevice::Answer;

const char* NameOf(core::DeviceFault::State state) {
  switch (state) {
    case core::DeviceFault::State::kToCome: return "to come";
    case core::DeviceFault::State::kInEffect: return "in effect";
    case core::DeviceFault::State::kOver: return "over";
  }
  return "";
}

ordered_json FaultsOf(const core::FaultyDevice& device) {
  ordered_json all = ordered_json::array();
  for (const core::FaultyDevice::Status& each : device.faults()) {
    ordered_json one{{"kind", emulator::NameOf(each.fault.kind)}, {"state", NameOf(each.state)}, {"hit", each.hit}};
    if (each.fault.after)
      one["after"] = *each.fault.after;
    else
      one["at_ns"] = each.fault.at.count();
    if (each.state != core::DeviceFault::State::kToCome) one["began_ns"] = NsOf(each.began);
    all.push_back(std::move(one));
  }
  return all;
}

constexpr core::EngineKind kEngines[] = {core::EngineKind::kCompute, core::EngineKind::kCopyIn,
                                         core::EngineKind::kCopyOut};

}  // namespace

Emulation::Emulation(Emulated emulated)
    : programs_(std::move(emulated.programs)),
      kernels_(std::move(emulated.kernels)),
      kernel_factor_(emulated.kernel_factor) {
  for (DeviceDescription& device : emulated.devices) devices_.push_back(std::make_unique<Device>(std::move(device)));
}

void Emulation::Say(ClientId client, wire::Message message) { outgoing_.push_back({client, std::move(message)}); }

Emulation::ClientId Emulation::Enter(pid_t pid, uid_t uid) {
  const ClientId id = next_client_++;
  clients_[id] = {.pid = pid, .uid = uid, .program = {}, .queues = {}};
  return id;
}

void Emulation::Leave(Instant now, ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  AdvanceDevices(now);
  for (const auto& device : devices_) {
    const wire::ClientUse use = UseOf(*device, id, found->second.pid, now);
    if (!HasUse(use)) continue;
    device->gone.push_back({use, now});
    if (device->gone.size() > kGoneMax) device->gone.pop_front();
  }
  for (const auto& [key, queue] : found->second.queues) model_queues_.erase(queue.model_queue);
  clients_.erase(found);
  std::erase_if(blanks_, [id](const auto& blank) { return blank.second.first == id; });
  for (const auto& device : devices_) device->device.Remove(now, id);
}

bool Emulation::InUse() const {
  return std::ranges::any_of(clients_, [](const auto& entry) {
    const Client& client = entry.second;
    return !client.reads_accounts || client.allocates || !client.queues.empty();
  });
}

Status Emulation::Take(Instant now, ClientId id, std::span<const std::byte> packet) {
  WEIR_TRY(const wire::Message message, wire::Decode(packet));
  const auto found = clients_.find(id);
  if (found == clients_.end()) return Fail(Errc::kInternal, "no such client");
  if (!found->second.welcomed && !std::holds_alternative<wire::Hello>(message))
    return Fail(Errc::kProtocol, "a message before Hello");
  AdvanceDevices(now);
  return std::visit([&](const auto& one) { return On(now, id, found->second, one); }, message);
}

std::string Emulation::WelcomeText(const Client& client) const {
  ordered_json text{{"version", wire::kVersion}, {"devices", ordered_json::array()}};
  for (const auto& device : devices_)
    text["devices"].push_back({{"name", device->description.name + " (emulated)"},
                               {"uuid", device->description.uuid},
                               {"pci", device->description.pci},
                               {"memory_bytes", device->description.model.memory.count},
                               {"units", device->description.model.units},
                               {"queue_depth", device->description.model.queue_depth},
                               {"refresh", device->description.refresh},
                               {"lost", device->model().lost()}});
  const ProgramCost& cost = CostOf(programs_, client.program);
  text["frame"] = {{"factor", cost.factor}, {"drawn", cost.drawn}};
  if (cost.frame) text["frame"]["fixed_ns"] = cost.frame->count();
  text["kernels"] = {{"factor", kernel_factor_}, {"costs", ordered_json::array()}};
  for (const KernelCost& kernel : kernels_) {
    ordered_json one{{"name", kernel.name}, {"units", kernel.units}, {"computed", kernel.computed}};
    if (kernel.fixed) {
      one["fixed_ns"] = kernel.fixed->count();
      one["per_item_ns"] = kernel.per_item_ns;
    }
    text["kernels"]["costs"].push_back(std::move(one));
  }
  return text.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Status Emulation::On(Instant, ClientId id, Client& client, const wire::Hello& hello) {
  if (client.welcomed) return Fail(Errc::kProtocol, "a second Hello");
  if (hello.version != wire::kVersion)
    return Fail(Errc::kProtocol, "the driver speaks version " + std::to_string(hello.version) + ", the emulator " +
                                     std::to_string(wire::kVersion));
  client.welcomed = true;
  client.program = hello.program;
  Say(id, wire::Welcome{WelcomeText(client)});
  return Ok();
}

Result<Emulation::Queue*> Emulation::QueueOf(ClientId id, Client& client, std::uint32_t device, std::uint32_t queue) {
  if (device >= devices_.size()) return Fail(Errc::kProtocol, "there is no device " + std::to_string(device));
  const std::uint64_t key = QueueKey(device, queue);
  const auto found = client.queues.find(key);
  if (found != client.queues.end()) return &found->second;
  if (client.queues.size() >= kQueuesPerClientMax)
    return Fail(Errc::kResourceExhausted, "more than " + std::to_string(kQueuesPerClientMax) + " queues");
  Queue& made = client.queues[key];
  made.device = device;
  made.model_queue = next_model_queue_++;
  model_queues_[made.model_queue] = {id, key};
  return &made;
}

Status Emulation::On(Instant now, ClientId id, Client& client, const wire::Submit& submit) {
  for (const wire::Command& one : submit.commands) {
    if (one.engine >= core::kEngineKinds) return Fail(Errc::kProtocol, "there is no engine of that number");
    WEIR_TRY(Queue * queue, QueueOf(id, client, one.device, one.queue));
    if (client.outstanding >= kOutstandingPerClientMax)
      return Fail(Errc::kResourceExhausted, "more commands than a client may have outstanding");
    constexpr auto kWorkMax = static_cast<std::uint64_t>(core::DeviceModel::kWorkMax.count());
    const core::DeviceCommand command{.client = id,
                                      .queue = queue->model_queue,
                                      .tag = one.tag,
                                      .engine = static_cast<core::EngineKind>(one.engine),
                                      .work = Duration{static_cast<std::int64_t>(std::min(one.work_ns, kWorkMax))},
                                      .bytes = Bytes{one.bytes},
                                      .units = one.units};
    ++client.commands;
    completed_.clear();
    const Answer answer = devices_[one.device]->device.Submit(now, command, completed_);
    TellCompleted();  // commands that a fault has ended
    if (answer == Answer::kTaken) {
      ++queue->submitted;
      ++client.outstanding;
    } else {
      const auto ending = answer == Answer::kFull ? wire::Ending::kFull : wire::Ending::kLost;
      Say(id, wire::Completed{{{.tag = one.tag, .began_ns = NsOf(now), .ended_ns = NsOf(now), .ending = ending}}});
    }
  }
  return Ok();
}

Status Emulation::On(Instant now, ClientId id, Client& client, const wire::Present& present) {
  WEIR_TRY(Queue * queue, QueueOf(id, client, present.device, present.queue));
  if (client.outstanding >= kOutstandingPerClientMax)
    return Fail(Errc::kResourceExhausted, "more frames than a client may have outstanding");
  ++client.outstanding;
  queue->frames.push_back(
      {.after = queue->submitted, .interval = std::min(present.interval, kIntervalMax), .tag = present.tag});
  ShowFrames(now, id, client, *queue);
  return Ok();
}

Status Emulation::On(Instant now, ClientId id, Client& client, const wire::Allocate& allocate) {
  if (allocate.device >= devices_.size()) return Fail(Errc::kProtocol, "there is no such device");
  client.allocates = true;
  switch (devices_[allocate.device]->device.Allocate(now, id, Bytes{allocate.bytes})) {
    case Answer::kTaken: Say(id, wire::Allocated{allocate.tag, wire::Room::kTaken}); break;
    case Answer::kFull: Say(id, wire::Allocated{allocate.tag, wire::Room::kNone}); break;
    case Answer::kRefused: Say(id, wire::Allocated{allocate.tag, wire::Room::kLost}); break;
  }
  return Ok();
}

Status Emulation::On(Instant, ClientId id, Client&, const wire::Free& free) {
  if (free.device >= devices_.size()) return Fail(Errc::kProtocol, "there is no such device");
  devices_[free.device]->device.Free(id, Bytes{free.bytes});
  return Ok();
}

Status Emulation::On(Instant now, ClientId id, Client& client, const wire::AskAccounts&) {
  client.reads_accounts = true;
  Say(id, wire::Accounts{AccountsText(now)});
  return Ok();
}

wire::ClientUse Emulation::UseOf(const Device& device, ClientId id, pid_t pid, Instant now) {
  using enum core::EngineKind;
  return {.client = id,
          .pid = pid,
          .compute_ns = Ns(device.model().BusyOf(id, kCompute, now)),
          .copy_in_ns = Ns(device.model().BusyOf(id, kCopyIn, now)),
          .copy_out_ns = Ns(device.model().BusyOf(id, kCopyOut, now))};
}

Status Emulation::On(Instant now, ClientId id, Client& client, const wire::AskUse& ask) {
  using enum core::EngineKind;
  client.reads_accounts = true;
  if (ask.device >= devices_.size()) return Fail(Errc::kProtocol, "there is no such device");
  Device& device = *devices_[ask.device];
  if (!device.device.AnswersAccount()) return Ok();
  while (!device.gone.empty() && now - device.gone.front().left > kListedAfterLeaving) device.gone.pop_front();
  wire::Use use{.compute_ns = Ns(device.model().Busy(kCompute, now)),
                .copy_in_ns = Ns(device.model().Busy(kCopyIn, now)),
                .copy_out_ns = Ns(device.model().Busy(kCopyOut, now)),
                .memory_used = device.model().memory_used().count,
                .more = 0,
                .clients = {}};
  for (const Gone& gone : device.gone)
    if (gone.use.client > ask.after) use.clients.push_back(gone.use);
  for (auto other = clients_.upper_bound(ask.after); other != clients_.end(); ++other)
    if (const auto one = UseOf(device, other->first, other->second.pid, now); HasUse(one)) use.clients.push_back(one);
  std::ranges::sort(use.clients, {}, &wire::ClientUse::client);
  use.more = use.clients.size() > wire::kEntriesMax;
  if (use.more != 0) use.clients.resize(wire::kEntriesMax);
  Say(id, std::move(use));
  return Ok();
}

// -- Time ------------------------------------------------------------------------------------------------------------

Instant Emulation::NextEvent() const {
  Instant next = blanks_.empty() ? core::DeviceModel::kNoEvent : blanks_.begin()->first;
  for (const auto& device : devices_) next = std::min(next, device->device.NextEvent());
  return next;
}

void Emulation::AdvanceDevices(Instant now) {
  for (const auto& device : devices_) {
    completed_.clear();
    device->device.Advance(now, completed_);
    TellCompleted();
  }
}

void Emulation::TellCompleted() {
  for (const core::DeviceCompletion& done : completed_) {
    const auto whose = model_queues_.find(done.command.queue);
    if (whose == model_queues_.end()) continue;
    const auto [id, key] = whose->second;
    Client& client = clients_.at(id);
    Queue& queue = client.queues.at(key);
    ++queue.completed;
    --client.outstanding;
    auto* last = outgoing_.empty() || outgoing_.back().client != id
                     ? nullptr
                     : std::get_if<wire::Completed>(&outgoing_.back().message);
    if (last != nullptr && last->completions.size() < wire::kEntriesMax)
      last->completions.push_back(CompletionOf(done));
    else
      Say(id, wire::Completed{{CompletionOf(done)}});
    ShowFrames(done.ended, id, client, queue);
  }
}

void Emulation::Advance(Instant now) {
  AdvanceDevices(now);
  while (!blanks_.empty() && blanks_.begin()->first <= now) {
    const Instant at = blanks_.begin()->first;
    const auto [id, key] = blanks_.begin()->second;
    blanks_.erase(blanks_.begin());
    Client& client = clients_.at(id);
    Queue& queue = client.queues.at(key);
    const Shown frame = queue.frames.front();
    queue.frames.pop_front();
    queue.last_blank = at;
    --client.outstanding;
    outgoing_.push_back(
        {id, wire::Completed{
                 {{.tag = frame.tag, .began_ns = NsOf(at), .ended_ns = NsOf(at), .ending = wire::Ending::kDone}}}});
    ShowFrames(at, id, client, queue);
  }
}

/// The vertical blank at which the first frame of a queue is shown. Blanks are at multiples of the period.
Instant Emulation::NextBlank(const Queue& queue, Instant now) const {
  const Duration period = devices_[queue.device]->period;
  const Instant next{(now.time_since_epoch() / period + 1) * period};
  return std::max(next, queue.last_blank + period * queue.frames.front().interval);
}

/// Determines when frames of the queue are shown, in order, as far as the commands of these frames have completed.
void Emulation::ShowFrames(Instant now, ClientId id, Client& client, Queue& queue) {
  while (!queue.frames.empty() && queue.frames.front().at == Instant{}) {
    Shown& frame = queue.frames.front();
    if (queue.completed < frame.after) return;
    if (frame.interval > 0) {
      frame.at = NextBlank(queue, now);
      blanks_.emplace(frame.at, model_queues_.at(queue.model_queue));
      return;
    }
    outgoing_.push_back(
        {id, wire::Completed{
                 {{.tag = frame.tag, .began_ns = NsOf(now), .ended_ns = NsOf(now), .ending = wire::Ending::kDone}}}});
    queue.frames.pop_front();
    --client.outstanding;
  }
}

// -- Ground truth ----------------------------------------------------------------------------------------------------

std::string Emulation::AccountsText(Instant now) const {
  int listed = 0, left_out = 0;
  ordered_json out{{"emulated", true}, {"now_ns", NsOf(now)}, {"devices", ordered_json::array()}};
  for (const auto& device : devices_) {
    ordered_json one{{"name", device->description.name + " (emulated)"},
                     {"uuid", device->description.uuid},
                     {"pci", device->description.pci},
                     {"memory_bytes", device->description.model.memory.count},
                     {"memory_used_bytes", device->model().memory_used().count},
                     {"busy_ns", ordered_json::object()},
                     {"switching_ns", device->model().Switching(core::EngineKind::kCompute).count()},
                     {"lost", device->model().lost()},
                     {"faults", FaultsOf(device->device)},
                     {"clients", ordered_json::array()}};
    for (const core::EngineKind engine : kEngines)
      one["busy_ns"][NameOf(engine)] = device->model().Busy(engine, now).count();
    for (const auto& [id, client] : clients_) {
      ordered_json busy = ordered_json::object();
      std::int64_t all = 0;
      for (const core::EngineKind engine : kEngines) {
        const std::int64_t ns = device->model().BusyOf(id, engine, now).count();
        busy[NameOf(engine)] = ns;
        all += ns;
      }
      const Bytes memory = device->model().MemoryOf(id);
      if (all == 0 && memory.count == 0) continue;
      if (listed >= kAccountsMax) {
        ++left_out;
        continue;
      }
      ++listed;
      one["clients"].push_back({{"pid", client.pid},
                                {"uid", client.uid},
                                {"program", client.program},
                                {"busy_ns", std::move(busy)},
                                {"memory_bytes", memory.count}});
    }
    out["devices"].push_back(std::move(one));
  }
  out["accounts_left_out"] = left_out;
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace weir::emulator
