// SPDX-License-Identifier: Apache-2.0
// weir-executor: started by the daemon when a vGPU's first OpenCL client connects.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "opencl/executor/driver.h"
#include "opencl/executor/server.h"
#include "platform/option_error.h"
#include "platform/unix_socket.h"

namespace {

constexpr const char* kUsage =
    "Usage: weir-executor --socket PATH [OPTIONS]     serve OpenCL clients that connect to PATH\n"
    "       weir-executor --list                      the OpenCL devices of this machine, a line each\n"
    "\n"
    "The daemon starts executors by itself; by hand it serves without a daemon, or for looking at things:\n"
    "  weir-executor --socket /tmp/cl.sock &\n"
    "  OCL_ICD_VENDORS=.../lib/weir/icd WEIR_OPENCL=/tmp/cl.sock clinfo -l\n"
    "\n"
    "  --socket PATH            listen at PATH\n"
    "  --listener FD            or on this descriptor, which listens already\n"
    "  --attach PATH            the vGPU's attach socket (default: pass no gate)\n"
    "  --vgpu NAME              its name, for messages\n"
    "  --owner UID              the user who may connect, beside root (default: this user)\n"
    "  --library FILE           the vendor's OpenCL library (default: the first of /etc/OpenCL/vendors that works)\n"
    "  --device DEVICE          which device: its number in the library, UUID or PCI address (default: 0)\n"
    "  --cpus N                 for drivers that compute on CPUs: how many workers (default: the driver's choice)\n"
    "  --copies                 treat a device that computes in host memory as if it had its own memory\n"
    "  --partition MODE         elastic memory: launches that do not fit the device run in parts (auto), fail (never), "
    "or\n"
    "                           are cut whenever they can be (always, for tests); default: auto\n"
    "  --peer SOCKET            an executor that may run parts, or a relay to one on another node; may be repeated\n"
    "  --peer-list FILE         more of them, of a list that changes: lines of ROOM_BYTES THREADS SOCKET\n"
    "  --copy-bandwidth GB/S    elastic memory: model a link to the device with this rate (default: none)\n"
    "  --idle-exit SECONDS      end after this time without a client (default: 10)\n"
    "  --kernel-timeout SECONDS time limit of a kernel, after which the executor ends (default: none)\n";

enum Option {
  kSocket = 1,
  kListener,
  kAttach,
  kVgpu,
  kOwner,
  kLibrary,
  kDevice,
  kCpus,
  kCopies,
  kPartition,
  kPeer,
  kPeerList,
  kCopyBandwidth,
  kIdle,
  kTimeout,
  kList,
  kHelp
};

constexpr option kOptions[] = {{"socket", required_argument, nullptr, kSocket},
                               {"listener", required_argument, nullptr, kListener},
                               {"attach", required_argument, nullptr, kAttach},
                               {"vgpu", required_argument, nullptr, kVgpu},
                               {"owner", required_argument, nullptr, kOwner},
                               {"library", required_argument, nullptr, kLibrary},
                               {"device", required_argument, nullptr, kDevice},
                               {"cpus", required_argument, nullptr, kCpus},
                               {"copies", no_argument, nullptr, kCopies},
                               {"partition", required_argument, nullptr, kPartition},
                               {"peer", required_argument, nullptr, kPeer},
                               {"peer-list", required_argument, nullptr, kPeerList},
                               {"copy-bandwidth", required_argument, nullptr, kCopyBandwidth},
                               {"idle-exit", required_argument, nullptr, kIdle},
                               {"list", no_argument, nullptr, kList},
                               {"help", no_argument, nullptr, kHelp},
                               {"kernel-timeout", required_argument, nullptr, kTimeout},
                               {nullptr, 0, nullptr, 0}};

bool Number(const char* text, double& value) {
  char* end = nullptr;
  value = std::strtod(text, &end);
  return end != text && *end == '\0' && value >= 0 && value < 1e9;
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

}  // namespace

int main(int argc, char** argv) {
  weir::opencl::ExecutorOptions options;
  options.owner = ::getuid();
  std::string socket;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    double value = 0;
    const bool numeric = which == kListener || which == kOwner || which == kCpus || which == kCopyBandwidth ||
                         which == kIdle || which == kTimeout;
    if (numeric && !Number(optarg, value)) {
      std::fprintf(stderr, "weir-executor: '%s' is not a number; see weir-executor --help\n", optarg);
      return 2;
    }
    switch (which) {
      case kSocket: socket = optarg; break;
      case kListener: options.listener.Reset(static_cast<int>(value)); break;
      case kAttach: options.attach = optarg; break;
      case kVgpu: options.vgpu = optarg; break;
      case kOwner: options.owner = static_cast<uid_t>(value); break;
      case kLibrary: options.library = optarg; break;
      case kDevice: options.device = optarg; break;
      case kCpus: ::setenv("POCL_MAX_PTHREAD_COUNT", std::to_string(static_cast<int>(value)).c_str(), 1); break;
      case kCopies: options.copies = true; break;
      case kPartition: {
        const auto mode = weir::core::PartitionModeNamed(optarg);
        if (!mode || *mode == weir::core::PartitionMode::kPaper) {
          std::fprintf(stderr, "weir-executor: --partition takes auto, never or always, not '%s'\n", optarg);
          return 2;
        }
        options.partition = *mode;
        break;
      }
      case kPeer: options.peers.named.emplace_back(optarg); break;
      case kPeerList: options.peers.list = optarg; break;
      case kCopyBandwidth: options.copy_bytes_per_s = value * 1e9; break;
      case kIdle: options.idle_exit_after = weir::FromSeconds(value); break;
      case kTimeout: options.kernel_timeout = weir::FromSeconds(value); break;
      case kList: return List(options.library);
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default:
        std::fprintf(stderr, "weir-executor: %s; see weir-executor --help\n",
                     weir::platform::OptionError(which, argv).c_str());
        return 2;
    }
  }
  if (!socket.empty()) {
    auto listener = weir::platform::ListenSeqPacket(socket, 0666);
    if (!listener) {
      std::fprintf(stderr, "weir-executor: %s\n", listener.error().message.c_str());
      return weir::EntryOf(listener.error().code).exit_code;
    }
    options.listener = std::move(*listener);
  }
  if (!options.listener) {
    std::fputs("weir-executor: no socket for clients: give --socket or --listener; see weir-executor --help\n", stderr);
    return 2;
  }
  const weir::Status status = weir::opencl::RunExecutor(std::move(options));
  if (!socket.empty()) ::unlink(socket.c_str());
  if (status) return 0;
  std::fprintf(stderr, "weir-executor: %s\n", status.error().message.c_str());
  return weir::EntryOf(status.error().code).exit_code;
}
