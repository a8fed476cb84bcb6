// SPDX-License-Identifier: Apache-2.0
// weir-gpu-memory: `weir serve --device nvidia:GPU` starts it to report a real GPU's memory in use to the daemon. It is
// a separate process because the daemon opens no driver.
#include <getopt.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "http/client.h"
#include "http/json_api.h"
#include "nvml/nvml_device.h"
#include "platform/fd.h"
#include "platform/option_error.h"
#include "platform/process.h"

namespace {

using namespace weir;

/// Twice a second, the interval that core::OthersMemory assumes.
constexpr int kEveryMs = 500;
constexpr Duration kAnswerWithin = seconds(2);

constexpr const char* kUsage =
    "Usage: weir-gpu-memory --gpu GPU [--control SOCKET --device NAME] [OPTIONS]\n"
    "\n"
    "'weir serve --device nvidia:GPU' starts it by itself. By hand, without --control, it prints once what NVIDIA's "
    "driver reports:\n"
    "  weir-gpu-memory --gpu 0\n"
    "\n"
    "  --gpu GPU         an index, a UUID or a PCI address, as printed by nvidia-smi -L\n"
    "  --control SOCKET  report to the daemon there, twice a second\n"
    "  --device NAME     which of its devices that is\n"
    "  --library FILE    NVML (default: libnvidia-ml.so.1)\n"
    "  --identify        print the GPU's UUID, PCI address and model, behind tabs, and end\n"
    "  --parent PID      end when this process has ended\n";

enum Option { kGpu = 1, kControl, kDevice, kLibraryFile, kParent, kIdentify, kHelp };

constexpr option kOptions[] = {
    {"gpu", required_argument, nullptr, kGpu},       {"control", required_argument, nullptr, kControl},
    {"device", required_argument, nullptr, kDevice}, {"library", required_argument, nullptr, kLibraryFile},
    {"parent", required_argument, nullptr, kParent}, {"identify", no_argument, nullptr, kIdentify},
    {"help", no_argument, nullptr, kHelp},           {nullptr, 0, nullptr, 0}};

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-gpu-memory: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-gpu-memory: %s; see weir-gpu-memory --help\n", what);
  return 2;
}

Status Tell(const std::string& control, const std::string& device, Bytes used) {
  const http::Call call{.method = "PUT",
                        .target = "/v1/devices/" + http::PercentEncode(device) + "/memory/used",
                        .body = nlohmann::json{{"used_bytes", used.count}}.dump()};
  WEIR_TRY(const http::Answer answer, http::AskUnix(control, call, kAnswerWithin));
  WEIR_TRY_STATUS(http::ObjectOf(answer, "asked the daemon at " + control + " for " + call.method + " " + call.target));
  return Ok();
}

/// Runs until the parent has ended, or forever. A failure is printed once and retried.
Status Watch(const nvml::NvmlDevice& gpu, const std::string& control, const std::string& device, int parent_pid) {
  platform::Fd parent;
  if (parent_pid != 0) {
    WEIR_TRY(parent, platform::OpenPidFd(parent_pid));
  }
  std::string said;
  for (;;) {
    const auto memory = gpu.Memory();
    const Status status = memory ? Tell(control, device, memory->used) : Status(memory.error());
    const std::string why = status ? std::string() : status.error().message;
    if (!why.empty() && why != said) std::fprintf(stderr, "weir-gpu-memory: %s\n", why.c_str());
    said = why;
    pollfd ended{.fd = parent.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, kEveryMs) > 0) return Ok();
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string which, control, device, library = nvml::kLibrary;
  int parent = 0;
  bool identify = false;
  for (int option = 0; (option = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (option) {
      case kGpu: which = optarg; break;
      case kControl: control = optarg; break;
      case kDevice: device = optarg; break;
      case kLibraryFile: library = optarg; break;
      case kParent: parent = std::atoi(optarg); break;
      case kIdentify: identify = true; break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(option, argv).c_str());
    }
  }
  if (optind != argc) return Usage("an argument too many");
  if (which.empty()) return Usage("--gpu is needed");
  if (control.empty() != device.empty()) return Usage("--control and --device go together");
  const auto gpu = nvml::NvmlDevice::Open(library, which);
  if (!gpu) return Failed(gpu.error());
  if (identify) {
    const nvml::DeviceIdentity identity = gpu->Identity();
    std::printf("%s\t%s\t%s\n", identity.uuid.c_str(), identity.pci.c_str(), identity.model.c_str());
    return 0;
  }
  if (!control.empty()) {
    const Status status = Watch(*gpu, control, device, parent);
    return status ? 0 : Failed(status.error());
  }
  const auto memory = gpu->Memory();
  if (!memory) return Failed(memory.error());
  std::printf("used %llu of %llu bytes\n", static_cast<unsigned long long>(memory->used.count),
              static_cast<unsigned long long>(memory->total.count));
  return 0;
}
