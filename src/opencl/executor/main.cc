// SPDX-License-Identifier: Apache-2.0
// weir-executor: started by the daemon when a vGPU's first OpenCL client connects.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "opencl/executor/driver.h"
#include "opencl/executor/server.h"
#include "platform/service_options.h"
#include "platform/unix_socket.h"

namespace {

constexpr const char* kAbout =
    "Usage: weir-executor --socket PATH [OPTIONS]     serve OpenCL clients that connect to PATH\n"
    "       weir-executor --list                      the OpenCL devices of this machine, a line each\n"
    "\n"
    "The daemon starts executors by itself; by hand it serves without a daemon, or for looking at things:\n"
    "  weir-executor --socket /tmp/cl.sock &\n"
    "  OCL_ICD_VENDORS=.../lib/weir/icd WEIR_OPENCL=/tmp/cl.sock clinfo -l\n";

constexpr weir::Duration kLongest = weir::seconds(1'000'000'000);

struct Arguments {
  weir::opencl::ExecutorOptions executor;
  std::string socket, partition{weir::core::NameOf(executor.partition)};
  int listener = -1;
  unsigned cpus = 0;
  double copy_gb_per_s = 0;
  bool list = false;
};

void Declare(weir::platform::ServiceOptions& options, Arguments& arguments) {
  weir::opencl::ExecutorOptions& executor = arguments.executor;
  options.Add("--socket", "PATH", arguments.socket, "listen at PATH");
  options.AddDescriptor("--listener", arguments.listener, "or on this descriptor, which listens already");
  options.Add("--attach", "PATH", executor.attach, "the vGPU's attach socket (default: pass no gate)");
  options.Add("--vgpu", "NAME", executor.vgpu, "its name, for messages");
  options.AddWhole("--owner", "UID", executor.clients.owner, 0, std::numeric_limits<uid_t>::max() - 1,
                   "the user who may connect, beside root and this one (default: this user)");
  options.AddWhole("--portal", "UID", executor.clients.portals, 1, std::numeric_limits<uid_t>::max() - 1,
                   "another user who may connect, that of a portal; may be repeated");
  options.Add("--library", "FILE", executor.library,
              "the vendor's OpenCL library (default: the first of /etc/OpenCL/vendors that works)");
  options.Add("--device", "DEVICE", executor.device,
              "which device: its number in the library, UUID or PCI address (default: 0)");
  options.AddWhole("--cpus", "N", arguments.cpus, 1, 1U << 16,
                   "for drivers that compute on CPUs: how many workers (default: the driver's choice)");
  options.AddFlag("--copies", executor.copies,
                  "treat a device that computes in host memory as if it had its own memory");
  options.AddChoice("--partition", arguments.partition, {"auto", "never", "always"},
                    "elastic memory: launches that do not fit the device run in parts (auto), fail (never), or are cut "
                    "whenever they can be (always, for tests)");
  options.Add("--peer", "SOCKET", executor.peers.named,
              "an executor that may run parts, or a relay to one on another node; may be repeated");
  options.Add("--peer-list", "FILE", executor.peers.list,
              "more of them, of a list that changes: lines of ROOM_BYTES THREADS SOCKET");
  options.AddReal("--copy-bandwidth", "GB/S", arguments.copy_gb_per_s, 0, 1e9,
                  "elastic memory: model a link to the device with this rate (default: none)");
  options.AddSeconds("--idle-exit", executor.idle_exit_after, weir::Duration{0}, kLongest,
                     "end after this time without a client");
  options.AddSeconds("--kernel-timeout", executor.kernel_timeout, weir::Duration{0}, kLongest,
                     "time limit of a kernel, after which the executor ends (default: none)");
  options.AddSeconds("--build-timeout", executor.build_timeout, weir::milliseconds(1), kLongest,
                     "time limit of a build, after which the executor ends (default: 600)");
  options.AddFlag("--list", arguments.list, "print the devices and end; with --library only those of that library");
}

/// `only`: list this library; empty: all.
int List(const std::string& only) {
  int found = 0;
  std::vector<std::string> libraries{only};
  if (only.empty()) libraries = weir::opencl::VendorLibraries("/etc/OpenCL/vendors");
  for (const std::string& library : libraries) {
    const auto devices = weir::opencl::OpenLibrary(library);
    if (!devices) {
      std::fprintf(stderr, "weir-executor: %s\n", devices.error().message.c_str());
      continue;
    }
    for (std::size_t i = 0; i < devices->size(); ++i) {
      const auto& device = (*devices)[i];
      const auto number = [&](cl_device_info name) {
        return static_cast<unsigned long long>(weir::opencl::DeviceNumber(*device.cl, device.device, name));
      };
      std::printf("%s\t%zu\t%s\t%s\t%llu\t%llu\t%s\t%s\t%s\n", library.c_str(), i,
                  weir::opencl::DeviceText(*device.cl, device.device, CL_DEVICE_VENDOR).c_str(), device.name.c_str(),
                  number(CL_DEVICE_MAX_COMPUTE_UNITS), number(CL_DEVICE_GLOBAL_MEM_SIZE),
                  weir::opencl::DeviceText(*device.cl, device.device, CL_DRIVER_VERSION).c_str(), device.uuid.c_str(),
                  device.pci.c_str());
      ++found;
    }
  }
  return found > 0 ? 0 : 3;
}

weir::Status Serve(Arguments arguments) {
  weir::opencl::ExecutorOptions& executor = arguments.executor;
  WEIR_TRY(executor.partition, weir::core::PartitionModeNamed(arguments.partition));
  executor.copy_bytes_per_s = arguments.copy_gb_per_s * 1e9;
  if (arguments.listener >= 0) executor.listener.Reset(arguments.listener);
  if (!arguments.socket.empty()) {
    WEIR_TRY(executor.listener, weir::platform::ListenSeqPacket(arguments.socket, 0666));
  }
  weir::Status status = weir::opencl::RunExecutor(std::move(executor));
  if (!arguments.socket.empty()) ::unlink(arguments.socket.c_str());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  arguments.executor.clients.owner = ::getuid();
  weir::platform::ServiceOptions options("weir-executor", kAbout);
  Declare(options, arguments);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (arguments.cpus > 0) ::setenv("POCL_MAX_PTHREAD_COUNT", std::to_string(arguments.cpus).c_str(), 1);
  if (arguments.list) return List(arguments.executor.library);
  if (arguments.socket.empty() && arguments.listener < 0)
    return options.Reject("no socket for clients: give --socket or --listener");
  return options.ExitStatusOf(Serve(std::move(arguments)));
}
