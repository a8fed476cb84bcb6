// SPDX-License-Identifier: Apache-2.0
// Module hosts: starting them, sending orders, handling their frames, restarting them.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <filesystem>

#include "http/json_api.h"
#include "modules/module_image.h"
#include "modules/service.h"
#include "platform/clock.h"
#include "platform/control_groups.h"
#include "platform/shared_memory.h"

namespace weir::modules {
namespace {

// The first and the longest delay between starts of a host that cannot serve. They are short, because the vGPU that the
// host needs may be created at any time.
constexpr Duration kRestartFirst = milliseconds(250), kRestartLast = seconds(2);
constexpr Duration kInspectWithin = seconds(10);  // for a module's constructors and its table

/// A rough estimate of a device's capacity, for devices whose capacity is not configured. Each compute unit counts as
/// its local memory, 10 GB/s of traffic, 1,024 threads and 8 blocks (the blocks of a multiprocessor of Fermi).
core::Loads LoadsOf(const DeviceFrame& device) {
  const std::uint64_t units = std::clamp<std::uint64_t>(device.units, 1, 1 << 16);
  const std::uint64_t local_kib = std::clamp<std::uint64_t>(device.local_memory_bytes >> 10, 1, 1 << 14);
  return {units * local_kib, units * 10'000, units * 1'024, units * 8};
}

}  // namespace

/// Whether the vGPU of the hosts exists. It may be created after the service has started.
bool Service::HasVgpu(Slot& slot) const {
  std::error_code error;
  if (options_.opencl.empty() || std::filesystem::exists(options_.opencl, error)) return true;
  const std::string vgpu = std::filesystem::path(options_.opencl).stem();
  const std::string why = fmt::format("no vGPU '{0}' yet: weir vgpu create {0}", vgpu);
  if (slot.complained != why) std::fprintf(stderr, "weir-modules: %s\n", why.c_str());
  slot.complained = why;
  return false;
}

/// kUnavailable: the folder that names the user is not there yet; no host runs as another user instead.
Result<HostProcess::Rights> Service::HostRights() const {
  HostProcess::Rights rights;
  // With a vGPU, the driver runs in the vGPU's executor.
  if (options_.opencl.empty()) rights.files = HostProcess::Files::kOfItsDriver;
  if (options_.user_of.empty()) return rights;
  struct stat home {};
  if (::lstat(options_.user_of.c_str(), &home) != 0 || !S_ISDIR(home.st_mode))
    return Fail(Errc::kUnavailable,
                fmt::format("no module host can start: {} is missing; the daemon makes it with the "
                            "vGPU: weir vgpu create {}",
                            options_.user_of, std::filesystem::path(options_.user_of).filename().string()));
  rights.as = platform::RunAs{.uid = home.st_uid, .gid = home.st_gid};
  rights.processes_max = platform::kTenantProcessesMax;
  rights.own_namespaces = own_namespaces_;
  rights.groups = platform::GroupEntries(options_.groups, std::to_string(home.st_uid));
  return rights;
}

void Service::StartHost(Slot& slot) {
  if (!HasVgpu(slot)) return StartHostLater(slot);
  std::vector<std::string> argv{options_.host, "--device", std::to_string(slot.id.value - 1)};
  if (options_.units > 0) argv.insert(argv.end(), {"--sub-device-units", std::to_string(options_.units)});
  if (options_.keep_bytes > 0) argv.insert(argv.end(), {"--keep-bytes", std::to_string(options_.keep_bytes)});
  slot.serves = slot.used = false;
  slot.guilty = {};
  slot.why.clear();
  auto host = [&]() -> Result<std::unique_ptr<HostProcess>> {
    WEIR_TRY(HostProcess::Rights rights, HostRights());
    return HostProcess::Start(
        loop_, std::move(argv), std::move(rights),
        {.frame = [this, &slot](HostFrame frame,
                                const std::vector<platform::Fd>& fds) { OnFrame(slot, std::move(frame), fds); },
         .ended = [this, &slot](const std::string& how) { OnHostEnd(slot, how); }});
  }();
  if (host) {
    slot.host = std::move(*host);
    return;
  }
  if (slot.complained != host.error().message)
    std::fprintf(stderr, "weir-modules: no host for device %llu: %s\n",
                 static_cast<unsigned long long>(slot.id.value - 1), host.error().message.c_str());
  slot.complained = host.error().message;
  StartHostLater(slot);
}

void Service::StartHostLater(Slot& slot) {
  slot.pause = std::clamp(slot.pause * 2, kRestartFirst, kRestartLast);
  slot.restart = std::make_unique<boost::asio::steady_timer>(loop_, slot.pause);
  slot.restart->async_wait([this, &slot](const boost::system::error_code& error) {
    if (!error) StartHost(slot);
  });
}

void Service::OnFrame(Slot& slot, HostFrame frame, const std::vector<platform::Fd>& fds) {
  std::vector<BookAction> actions;
  if (const auto* device = std::get_if<DeviceFrame>(&frame)) {
    OnDevice(slot, *device);
  } else if (const auto* refusal = std::get_if<RefusalFrame>(&frame)) {
    slot.why = refusal->words;
  } else if (const auto* done = std::get_if<DoneFrame>(&frame)) {
    OnDone(slot, *done, fds);
  } else if (auto* failed = std::get_if<FailedFrame>(&frame)) {
    // Reading a blob from the store sets a damaged file aside. Once for each run: a host may send anything.
    const Run* run = book_.FindRunning(slot.id, core::RunId{failed->run});
    if (failed->code == Errc::kIo && run != nullptr)
      for (const std::string& blob : {run->spec.blob, run->spec.input})
        if (!blob.empty()) blobs_.Get(blob, [](const Result<std::string>&) {});
    book_.Finish(slot.id, core::RunId{failed->run},
                 {.text = std::move(failed->text), .error = Fail(failed->code, std::move(failed->words))},
                 platform::Now(), actions);
    Apply(actions);
  } else if (const auto* crash = std::get_if<CrashFrame>(&frame)) {
    slot.guilty = core::RunId{crash->run};
    slot.why = crash->signal == 0 ? "its module ended the process (exit)"
                                  : fmt::format("its module crashed (signal {})", crash->signal);
  } else if (const auto* lost = std::get_if<DeviceLostFrame>(&frame)) {
    slot.why = lost->words;
  }
}

void Service::OnDevice(Slot& slot, const DeviceFrame& frame) {
  if (slot.serves) return;
  slot.serves = true;
  slot.pause = {};
  slot.complained.clear();
  slot.model = frame.name;
  slot.name = fmt::format("device{}", frame.index);
  slot.capacity = options_.capacity.value_or(LoadsOf(frame));
  // The first DeviceFrame tells the number of devices.
  for (std::uint64_t id = 1; id <= frame.count; ++id) {
    Slot& other = slots_[DeviceId{id}];
    if (other.id) continue;
    other.id = DeviceId{id};
    StartHost(other);
  }
  if (slot.pending) {
    slot.used = true;
    Execute(slot, *std::exchange(slot.pending, {}));
    return;
  }
  std::vector<BookAction> actions;
  const core::DeviceCapacity capacity{
      .memory = {frame.memory_bytes}, .runs_max = options_.concurrent_max, .loads = slot.capacity};
  const Status added = book_.AddDevice(slot.id, slot.name, capacity, platform::Now(), actions);
  if (!added) std::fprintf(stderr, "weir-modules: %s: %s\n", slot.name.c_str(), added.error().message.c_str());
  if (reports_.devices_changed) reports_.devices_changed();
  Apply(actions);
}

void Service::OnDone(Slot& slot, const DoneFrame& frame, const std::vector<platform::Fd>& fds) {
  // Once for each run, because a host may send anything and each output takes room in the store.
  if (book_.FindRunning(slot.id, core::RunId{frame.run}) == nullptr) return;
  RunResult result{.text = frame.text, .measured = frame.measured};
  if (frame.output_bytes > 0) {
    const auto stored = [&]() -> Result<ModuleStore::Stored> {
      if (fds.size() != 1 || frame.output_bytes > ModuleStore::kBlobBytesMax)
        return Fail(Errc::kProtocol, "its host's output has another size than announced");
      WEIR_TRY(const platform::Mapping output, platform::MapForeignRegion(fds[0].get(), frame.output_bytes));
      // Copied once, because the host can still write to it.
      return store_.Put(std::string(output.As<const char>(), static_cast<std::size_t>(frame.output_bytes)));
    }();
    if (stored)
      result.output = stored->blob;
    else
      result.error = Fail(stored.error().code, "keeping its output: " + stored.error().message);
  }
  std::vector<BookAction> actions;
  book_.Finish(slot.id, core::RunId{frame.run}, std::move(result), platform::Now(), actions);
  Apply(actions);
}

void Service::OnHostEnd(Slot& slot, const std::string& how) {
  const bool served = slot.serves;
  const std::string why = slot.why.empty() ? "its host was " + how : slot.why;
  // Destroyed later by the loop: this code runs in the host's own callback.
  boost::asio::post(loop_, [old = std::shared_ptr<HostProcess>(std::move(slot.host))] {});
  if (slot.pending && served) return StartHost(slot);
  slot.pending.reset();
  if (!served && slot.complained != why)
    std::fprintf(stderr, "weir-modules: device %llu does not serve: %s; it is tried again\n",
                 static_cast<unsigned long long>(slot.id.value - 1), why.c_str());
  if (!served) slot.complained = why;
  std::vector<BookAction> actions;
  const core::RunId guilty = slot.guilty;
  book_.LoseDevice(slot.id, guilty, Fail(Errc::kInternal, why), platform::Now(), actions);
  if (served)
    StartHost(slot);
  else
    StartHostLater(slot);
  Apply(actions);
}

void Service::Inspect(const std::string& name, const std::string& blob, http::Respond respond) {
  const auto image = store_.Get(blob);
  if (!image) return respond(http::ErrorReply(image.error()));
  if (const Status status = CheckModuleImage(std::as_bytes(std::span(*image))); !status)
    return respond(http::ErrorReply(status.error()));
  auto file = store_.File(blob);
  if (!file) return respond(http::ErrorReply(file.error()));
  auto rights = HostRights();
  if (!rights) return respond(http::ErrorReply(rights.error()));
  rights->files = HostProcess::Files::kNone;
  const std::uint64_t number = ++last_number_;
  Inspection& inspection = inspections_[number];
  inspection.name = name;
  inspection.blob = blob;
  inspection.respond = std::move(respond);
  auto host = HostProcess::Start(
      loop_, {options_.host, "--inspect"}, *std::move(rights),
      {.frame = [this, number](const HostFrame& frame,
                               const std::vector<platform::Fd>&) { OnInspected(number, frame); },
       .ended =
           [this, number](const std::string& how) {
             AnswerInspection(number, http::ErrorReply(Fail(Errc::kInvalidArgument,
                                                            "this is not a module: opening it failed, it was " + how)));
             boost::asio::post(loop_, [this, number] { inspections_.erase(number); });
           }});
  if (!host) {
    AnswerInspection(number, http::ErrorReply(host.error()));
    inspections_.erase(number);
    return;
  }
  inspection.host = std::move(*host);
  std::vector<platform::Fd> files;
  files.push_back(*std::move(file));
  inspection.host->Send(InspectFrame{blob}, files);
  inspection.deadline = std::make_unique<boost::asio::steady_timer>(loop_, kInspectWithin);
  inspection.deadline->async_wait([this, number](const boost::system::error_code& error) {
    const auto found = inspections_.find(number);
    if (error || found == inspections_.end()) return;
    AnswerInspection(number, http::ErrorReply(Fail(Errc::kInvalidArgument,
                                                   "this is not a module: opening it takes longer than 10 s")));
    found->second.host->Kill();
  });
}

void Service::OnInspected(std::uint64_t number, const HostFrame& frame) {
  const Inspection& inspection = inspections_.at(number);
  if (const auto* refusal = std::get_if<RefusalFrame>(&frame))
    return AnswerInspection(number, http::ErrorReply(Fail(refusal->code, refusal->words)));
  const auto* table = std::get_if<TableFrame>(&frame);
  if (table == nullptr || !inspection.respond) return;
  RegisteredModule& module = modules_[inspection.name];
  const std::string before = std::exchange(module.blob, inspection.blob);
  module.kernels = table->kernels;
  dropped_.erase(inspection.blob);
  SaveModules();
  if (!before.empty() && before != inspection.blob) DropBlob(before);
  AnswerInspection(number, http::JsonReply(ToJson(inspection.name, module)));
}

void Service::AnswerInspection(std::uint64_t number, http::Reply reply) {
  if (auto respond = std::exchange(inspections_.at(number).respond, nullptr)) respond(std::move(reply));
}

void Service::Apply(std::vector<BookAction>& actions) {
  for (const BookAction& action : actions) {
    Slot& slot = slots_.at(action.device ? action.device : DeviceId{1});
    switch (action.kind) {
      case BookAction::Kind::kStart: {
        const Run* run = book_.Find(action.run);
        if (run == nullptr) break;  // it has been removed in the meantime
        ExecuteFrame order{.run = run->number.value,
                           .tenant = run->spec.tenant,
                           .blob = run->spec.blob,
                           .kernel = run->spec.kernel,
                           .arguments = run->spec.arguments,
                           .input = run->spec.input,
                           .capacity = run->spec.measure ? slot.capacity : core::Loads{}};
        if (options_.fresh && slot.used) {
          slot.pending = std::move(order);
          slot.host->Kill();
          break;
        }
        slot.used = true;
        Execute(slot, std::move(order));
        break;
      }
      case BookAction::Kind::kEndHost:
        slot.pending.reset();
        if (slot.host) slot.host->Kill();
        break;
      case BookAction::Kind::kOver: OnOver(action.run); break;
    }
  }
  actions.clear();
  ArmDeadline();
}

void Service::Execute(Slot& slot, ExecuteFrame order) {
  if (!slot.host) return;
  std::vector<platform::Fd> files;
  for (const std::string* blob : {&order.blob, &order.input}) {
    if (blob->empty()) continue;
    auto file = store_.File(*blob);
    if (!file) {
      // Not at once: this may be called while the book's actions are carried out.
      boost::asio::post(
          loop_, [this, &slot,
                  failed = FailedFrame{.run = order.run, .code = file.error().code, .words = file.error().message}] {
            OnFrame(slot, failed, {});
          });
      return;
    }
    files.push_back(*std::move(file));
  }
  slot.host->Send(std::move(order), files);
}

void Service::OnOver(core::RunId number) {
  const Run* run = book_.Find(number);
  if (run == nullptr) return;
  ForgetDropped(run->spec.blob);
  replies_.SendDue();
  if (reports_.run_ended) reports_.run_ended(*run);
}

/// Called when one of the blob's names is removed.
void Service::DropBlob(const std::string& blob) {
  if (std::ranges::any_of(modules_, [&](const auto& entry) { return entry.second.blob == blob; })) return;
  dropped_.insert(blob);
  ForgetDropped(blob);
}

void Service::ForgetDropped(const std::string& blob) {
  if (!dropped_.contains(blob) || book_.UsesBlob(blob)) return;
  dropped_.erase(blob);
  for (auto& [id, slot] : slots_)
    if (slot.host && slot.serves) slot.host->Send(ForgetFrame{blob});
}

void Service::ArmDeadline() {
  const auto next = book_.NextDeadline();
  if (!next) {
    deadline_.cancel();
    return;
  }
  deadline_.expires_after(std::max<Duration>(*next - platform::Now(), milliseconds(1)));
  deadline_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    std::vector<BookAction> actions;
    book_.Tick(platform::Now(), actions);
    Apply(actions);
  });
}

}  // namespace weir::modules
