// SPDX-License-Identifier: Apache-2.0
#include "modules/host/host.h"

#include <poll.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "modules/host/device_context.h"
#include "modules/host/host_crash.h"
#include "modules/host/host_run.h"
#include "modules/host/launch_meter.h"
#include "modules/host/loaded_module.h"
#include "modules/module_image.h"
#include "modules/module_store.h"
#include "platform/clock.h"
#include "platform/unix_socket.h"

namespace weir::modules {
namespace {

/// Sends the whole frame, however long the other side takes to read. If weir-modules has gone, the process has no work
/// left and ends.
void SendFrame(int fd, const HostFrame& frame, int passed = -1) {
  const std::vector<std::byte> packet = EncodeFrame(frame);
  for (;;) {
    const Status status =
        platform::SendPacket(fd, packet, passed < 0 ? std::span<const int>{} : std::span<const int>(&passed, 1));
    if (status) return;
    if (status.error().code != Errc::kTimeout && status.error().code != Errc::kBusy) ::_exit(0);
    pollfd entry{fd, POLLOUT, 0};
    ::poll(&entry, 1, 1'000);
  }
}

Result<std::unique_ptr<LoadedModule>> Load(const platform::Fd& file, const std::string& blob) {
  WEIR_TRY(const std::string image, ReadBlob(file, blob));
  WEIR_TRY_STATUS(CheckModuleImage(std::as_bytes(std::span(image))));
  return LoadedModule::Open(blob.substr(0, 12), image);
}

/// A module in this context. Its first run prepares it; it is released once it is forgotten and has no runs.
struct HostedModule {
  std::mutex mutex;  // the first run loads and prepares while others wait
  std::unique_ptr<LoadedModule> module;
  bool prepared = false;
  void* state = nullptr;
  int runs = 0;  // like `forgotten`, guarded by the host's mutex
  bool forgotten = false;
};

class Host {
 public:
  Host(int fd, DeviceContext context, std::uint64_t keep_bytes)
      : fd_(fd), context_(std::move(context)), residual_(keep_bytes) {}

  void Serve() {
    SendFrame(fd_, context_.facts());
    for (;;) {
      platform::WaitReadable(fd_, -1);
      auto packet = platform::ReceivePacket(fd_, kFrameBytesMax);
      if (!packet && packet.error().code == Errc::kTimeout) continue;
      if (!packet || packet->bytes.empty()) return;
      auto order = DecodeOrder(packet->bytes);
      if (!order) return;
      if (const auto* forget = std::get_if<ForgetFrame>(&*order)) {
        Forget(forget->blob);
      } else if (auto* execute = std::get_if<ExecuteFrame>(&*order)) {
        if (packet->fds.size() != (execute->input.empty() ? 1 : 2)) return;
        std::thread(&Host::Run, this, std::move(*execute), std::move(packet->fds)).detach();
      } else {
        return;
      }
    }
  }

 private:
  HostedModule& Enter(const std::string& blob) {
    const std::scoped_lock lock(mutex_);
    HostedModule& hosted = modules_[blob];
    ++hosted.runs;
    hosted.forgotten = false;
    return hosted;
  }

  void Leave(const std::string& blob) {
    const std::scoped_lock lock(mutex_);
    HostedModule& hosted = modules_.at(blob);
    --hosted.runs;
    GiveUp(blob, hosted);
  }

  void Forget(const std::string& blob) {
    const std::scoped_lock lock(mutex_);
    const auto found = modules_.find(blob);
    if (found == modules_.end()) return;
    found->second.forgotten = true;
    GiveUp(blob, found->second);
  }

  /// Called with the lock held, so that a new run waits until the module's state is released.
  void GiveUp(const std::string& blob, HostedModule& hosted) {
    if (!hosted.forgotten || hosted.runs > 0) return;
    residual_.Forget(blob);
    if (hosted.prepared && hosted.module->table().unprepare != nullptr) hosted.module->table().unprepare(hosted.state);
    hosted.prepared = false;
    hosted.state = nullptr;
  }

  void Run(const ExecuteFrame& order, const std::vector<platform::Fd>& files) {
    const CrashWatch watch(order.run);
    HostedModule& hosted = Enter(order.blob);
    HostRun run(order, residual_);
    const Status status = Execute(order, files, hosted, run);
    residual_.EndRun(order.run);
    Leave(order.blob);
    if (!status) {
      // A run that failed because the device is lost may succeed on another device.
      if (const Status there = context_.Probe(); !there) {
        SendFrame(fd_, DeviceLostFrame{there.error().message});
        ::_exit(1);
      }
      return SendFrame(fd_, FailedFrame{order.run, status.error().code, run.text(), status.error().message});
    }
    const auto output = run.SealedOutput();
    if (!output) return SendFrame(fd_, FailedFrame{order.run, output.error().code, run.text(), output.error().message});
    SendFrame(fd_, DoneFrame{order.run, run.output_bytes(), run.text(), run.measured}, output->get());
  }

  Status Execute(const ExecuteFrame& order, const std::vector<platform::Fd>& files, HostedModule& hosted,
                 HostRun& run) {
    const bool measures = order.capacity != core::Loads{};
    WEIR_TRY(run.queue_of_run, context_.MakeQueue(measures));
    run.size = sizeof(weir_run);
    run.api = WEIR_API_OPENCL;
    run.context = context_.context();
    run.device = context_.device();
    run.queue = run.queue_of_run;
    WEIR_TRY_STATUS(Prepare(order, files[0], hosted, run));
    const weir_kernel* kernel = hosted.module->Kernel(order.kernel);
    if (kernel == nullptr) return Fail(Errc::kNotFound, NoSuchKernel(order, hosted.module->lines()));
    if (!order.input.empty()) {
      WEIR_TRY(run.input_bytes_of_run, ReadBlob(files[1], order.input));
      run.input = run.input_bytes_of_run.data();
      run.input_bytes = run.input_bytes_of_run.size();
    }
    run.arguments = order.arguments.c_str();
    run.prepared = hosted.state;
    const auto execute = [&] { return run.Call("it", [&] { return kernel->execute(&run); }); };
    if (!measures) return execute();
    const auto meter = LaunchMeter::Watch(run.queue_of_run, context_.device(), order.capacity);
    const Instant began = platform::Now();
    Status status = execute();
    run.measured = meter->Take(platform::Now() - began);
    return status;
  }

  Status Prepare(const ExecuteFrame& order, const platform::Fd& file, HostedModule& hosted, HostRun& run) {
    const std::scoped_lock lock(hosted.mutex);
    if (!hosted.module) {
      WEIR_TRY(hosted.module, Load(file, order.blob));
    }
    if (!hosted.prepared && hosted.module->table().prepare != nullptr) {
      run.arguments = "";
      WEIR_TRY_STATUS(
          run.Call("its module's prepare", [&] { return hosted.module->table().prepare(&run, &hosted.state); }));
    }
    hosted.prepared = true;
    return Ok();
  }

  static std::string NoSuchKernel(const ExecuteFrame& order, const TableFrame& lines) {
    std::string names;
    for (const KernelLine& line : lines.kernels) names += (names.empty() ? "" : ", ") + line.name;
    return "the module has no kernel '" + order.kernel + "'; it has: " + names;
  }

  const int fd_;
  const DeviceContext context_;
  ResidualData residual_;
  std::mutex mutex_;
  std::map<std::string, HostedModule> modules_;  // by blob; modules stay loaded
};

Status Refuse(int fd, const Error& error) {
  SendFrame(fd, RefusalFrame{error.code, error.message});
  return error;
}

}  // namespace

Status RunHost(const HostOptions& options) {
  auto context = DeviceContext::Open(options.device, options.units);
  if (!context) return Refuse(options.fd, context.error());
  const std::uint64_t keep = options.keep_bytes > 0 ? options.keep_bytes : context->facts().memory_bytes / 4;
  WatchForCrashes(options.fd);
  // Never destroyed: its threads may be running a module's code.
  auto* host = new Host(options.fd, std::move(*context), keep);
  host->Serve();
  return Ok();
}

Status InspectModule(int fd) {
  const auto inspected = [&]() -> Result<TableFrame> {
    platform::WaitReadable(fd, -1);
    WEIR_TRY(const auto packet, platform::ReceivePacket(fd, kFrameBytesMax));
    WEIR_TRY(const OrderFrame order, DecodeOrder(packet.bytes));
    const auto* inspect = std::get_if<InspectFrame>(&order);
    if (inspect == nullptr || packet.fds.size() != 1)
      return Fail(Errc::kProtocol, "weir-modules sent something else than a module to inspect");
    WEIR_TRY(const auto module, Load(packet.fds[0], inspect->blob));
    return module->lines();
  }();
  if (!inspected) return Refuse(fd, inspected.error());
  SendFrame(fd, *inspected);
  return Ok();
}

}  // namespace weir::modules
