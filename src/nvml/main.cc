// SPDX-License-Identifier: Apache-2.0
// weir-gpu-memory: `weir serve --device nvidia:GPU` starts it to report a real GPU's memory in use to the daemon. It is
// a separate process because the daemon opens no driver.
#include <cstdio>
#include <string>
#include <thread>

#include "http/client.h"
#include "http/json_api.h"
#include "nvml/nvml_device.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

/// Twice a second, the interval that core::OthersMemory assumes.
constexpr Duration kEvery = milliseconds(500);
constexpr Duration kAnswerWithin = seconds(2);

constexpr const char* kAbout =
    "Usage: weir-gpu-memory --gpu GPU [--control SOCKET --device NAME] [OPTIONS]\n"
    "\n"
    "'weir serve --device nvidia:GPU' starts it by itself. By hand, without --control, it prints once what NVIDIA's\n"
    "driver reports:\n"
    "  weir-gpu-memory --gpu 0\n";

Status Tell(const std::string& control, const std::string& device, Bytes used) {
  const http::Call call{.method = "PUT",
                        .target = "/v1/devices/" + http::PercentEncode(device) + "/memory/used",
                        .body = nlohmann::json{{"used_bytes", used.count}}.dump()};
  WEIR_TRY(const http::Answer answer, http::AskUnix(control, call, kAnswerWithin));
  WEIR_TRY_STATUS(http::ObjectOf(answer, "asked the daemon at " + control + " for " + call.method + " " + call.target));
  return Ok();
}

/// Runs until the process is ended. A failure is printed once and retried.
[[noreturn]] void Watch(const nvml::NvmlDevice& gpu, const std::string& control, const std::string& device) {
  std::string said;
  for (;;) {
    const auto memory = gpu.Memory();
    const Status status = memory ? Tell(control, device, memory->used) : Status(memory.error());
    const std::string why = status ? std::string() : status.error().message;
    if (!why.empty() && why != said) std::fprintf(stderr, "weir-gpu-memory: %s\n", why.c_str());
    said = why;
    std::this_thread::sleep_for(kEvery);
  }
}

struct Arguments {
  std::string gpu, control, device, library = nvml::kLibrary;
  bool identify = false;
  pid_t parent = 0;
};

Status Run(const Arguments& arguments) {
  if (!arguments.control.empty()) WEIR_TRY_STATUS(platform::ExitAtServiceEnd(arguments.parent));
  WEIR_TRY(const nvml::NvmlDevice gpu, nvml::NvmlDevice::Open(arguments.library, arguments.gpu));
  if (arguments.identify) {
    const nvml::DeviceIdentity identity = gpu.Identity();
    std::printf("%s\t%s\t%s\n", identity.uuid.c_str(), identity.pci.c_str(), identity.model.c_str());
    return Ok();
  }
  if (!arguments.control.empty()) Watch(gpu, arguments.control, arguments.device);
  WEIR_TRY(const auto memory, gpu.Memory());
  std::printf("used %llu of %llu bytes\n", static_cast<unsigned long long>(memory.used.count),
              static_cast<unsigned long long>(memory.total.count));
  return Ok();
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-gpu-memory", kAbout);
  options.Add("--gpu", "GPU", arguments.gpu, "an index, a UUID or a PCI address, as printed by nvidia-smi -L");
  options.Add("--control", "SOCKET", arguments.control, "report to the daemon there, twice a second");
  options.Add("--device", "NAME", arguments.device, "which of its devices that is");
  options.Add("--library", "FILE", arguments.library, "NVML");
  options.AddFlag("--identify", arguments.identify,
                  "print the GPU's UUID, PCI address and model, behind tabs, and end");
  options.AddParent(arguments.parent);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (arguments.gpu.empty()) return options.Reject("--gpu is needed");
  if (arguments.control.empty() != arguments.device.empty())
    return options.Reject("--control and --device go together");
  return options.ExitStatusOf(Run(arguments));
}
