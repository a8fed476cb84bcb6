// SPDX-License-Identifier: Apache-2.0
// weir-gpu-account: reports the driver's account of each process to the daemon, because the daemon itself opens no
// driver.
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "account/drm_fdinfo.h"
#include "account/drm_source.h"
#include "account/emulator_source.h"
#include "account/nvml_source.h"
#include "http/client.h"
#include "http/json_api.h"
#include "platform/clock.h"
#include "platform/service_end.h"
#include "platform/service_options.h"

namespace {

using namespace weir;

/// Charges are corrected ten times a second: a share is then right within a second, at the cost of 0.1 % of a CPU.
constexpr Duration kEvery = milliseconds(100);
constexpr Duration kAnswerWithin = seconds(2);

constexpr const char* kAbout =
    "Usage: weir-gpu-account SOURCE [--control SOCKET --device NAME ...] [OPTIONS]\n"
    "\n"
    "Reads the time for which each process has used a device from the device's driver. 'weir serve' starts it for its\n"
    "devices. Without --control it prints the account once.\n";

constexpr const char* kExamples =
    "\n"
    "EXAMPLES\n"
    "  weir-gpu-account --emulator /run/weir/emulator-0.sock\n"
    "  weir-gpu-account --drm 0000:03:00.0\n";

struct Arguments {
  std::string emulator, drm, nvml, control, proc = "/proc", library = nvml::kLibrary;
  std::vector<std::string> devices;
  pid_t parent = 0;
};

/// Prints an emulator's account by engine, in the form of DRM's fdinfo.
Status PrintEmulator(const std::string& socket) {
  WEIR_TRY(emulator::AccountReader reader, emulator::AccountReader::Connect(socket, "weir-gpu-account"));
  for (std::uint32_t i = 0; i < reader.devices().size(); ++i) {
    WEIR_TRY(const emulator::DeviceUse use, reader.Read(i));
    for (const emulator::ClientUse& client : use.clients)
      std::printf(
          "pid:\t%lld\n%s\n", static_cast<long long>(client.pid),
          account::FdinfoText(
              {.driver = "weir-emulated",
               .pdev = reader.devices()[i].pci,
               .id = client.key & 0xFFFFFFFFU,
               .engines = {{"compute", client.compute}, {"copy-in", client.copy_in}, {"copy-out", client.copy_out}}})
              .c_str());
  }
  return Ok();
}

/// `over`: how long the use is accumulated before printing, for drivers without counters.
Status Print(account::Source& source, Duration over) {
  for (const Instant end = platform::Now() + over; platform::Now() < end; std::this_thread::sleep_for(kEvery))
    WEIR_TRY_STATUS(source.Read());
  WEIR_TRY(const std::vector<account::DeviceUse> uses, source.Read());
  for (const account::DeviceUse& use : uses)
    for (const account::ClientUse& client : use.clients)
      std::printf("pid %lld client %llu used %.3f ms\n", static_cast<long long>(client.pid),
                  static_cast<unsigned long long>(client.key), static_cast<double>(client.used.count()) / 1e6);
  return Ok();
}

Status Tell(account::Source& source, const std::string& control, const std::vector<std::string>& devices) {
  WEIR_TRY(const std::vector<account::DeviceUse> uses, source.Read());
  if (uses.size() < devices.size())
    return Fail(Errc::kInvalidArgument, "the account has fewer devices than --device names");
  nlohmann::json body{{"devices", nlohmann::json::array()}};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    nlohmann::json processes = nlohmann::json::array();
    for (const account::ClientUse& client : uses[i].clients)
      processes.push_back({{"key", client.key}, {"pid", client.pid}, {"used_ns", client.used.count()}});
    nlohmann::json device{{"device", devices[i]}, {"processes", std::move(processes)}};
    if (uses[i].busy) device["busy_ns"] = uses[i].busy->count();
    body["devices"].push_back(std::move(device));
  }
  const http::Call call{.method = "PUT", .target = "/v1/use", .body = body.dump()};
  WEIR_TRY(const http::Answer answer, http::AskUnix(control, call, kAnswerWithin));
  WEIR_TRY_STATUS(http::ObjectOf(answer, "asked the daemon at " + control + " for " + call.method + " " + call.target));
  return Ok();
}

/// Runs until the process is ended. A failure is printed once and retried.
[[noreturn]] void Watch(account::Source& source, const std::string& control, const std::vector<std::string>& devices) {
  std::string printed;
  int failures = 0;
  for (;;) {
    const Status status = Tell(source, control, devices);
    failures = status ? 0 : failures + 1;
    // An emulator and the daemon start at the same time as this program, so that the first calls may fail.
    constexpr int kQuietFailures = 20;
    const std::string why = status || failures < kQuietFailures ? std::string() : status.error().message;
    if (!why.empty() && why != printed) std::fprintf(stderr, "weir-gpu-account: %s\n", why.c_str());
    if (status || !why.empty()) printed = why;
    std::this_thread::sleep_for(kEvery);
  }
}

std::unique_ptr<account::Source> SourceOf(const Arguments& arguments) {
  if (!arguments.drm.empty())
    return std::make_unique<account::DrmSource>(arguments.drm, arguments.proc, [] { return platform::Now(); });
  if (!arguments.nvml.empty()) return std::make_unique<account::NvmlSource>(arguments.nvml, arguments.library);
  return std::make_unique<account::EmulatorSource>(arguments.emulator);
}

Status Run(const Arguments& arguments) {
  if (!arguments.control.empty()) WEIR_TRY_STATUS(platform::ExitAtServiceEnd(arguments.parent));
  const std::unique_ptr<account::Source> source = SourceOf(arguments);
  if (!arguments.control.empty()) Watch(*source, arguments.control, arguments.devices);
  if (!arguments.emulator.empty()) return PrintEmulator(arguments.emulator);
  return Print(*source, arguments.nvml.empty() ? Duration{} : seconds(2));
}

void Declare(platform::ServiceOptions& options, Arguments& arguments) {
  options.AddText("SOURCE is one of:\n");
  options.Add("--emulator", "SOCKET", arguments.emulator, "the devices of weir-emulated-gpu");
  options.Add("--drm", "ADDRESS", arguments.drm,
              "a GPU with a DRM driver of Linux (amdgpu, i915, ...), by its PCI address: the files /proc/PID/fdinfo. "
              "Those of other users are read by root only");
  options.Add("--nvml", "GPU", arguments.nvml,
              "an NVIDIA GPU, by index, UUID or PCI address; printed is the use of two seconds");
  options.AddText("\n");
  options.Add("--control", "SOCKET", arguments.control, "tell the daemon at this socket, ten times a second");
  options.Add("--device", "NAME", arguments.devices,
              "the daemon's name of the source's first device; again for its second, and so on");
  options.AddParent(arguments.parent);
  options.Add("--proc", "FOLDER", arguments.proc, "with --drm: read this folder");
  options.Add("--library", "FILE", arguments.library, "with --nvml: NVML");
  options.AddText(kExamples);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  platform::ServiceOptions options("weir-gpu-account", kAbout);
  Declare(options, arguments);
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  const int sources = static_cast<int>(!arguments.emulator.empty()) + static_cast<int>(!arguments.drm.empty()) +
                      static_cast<int>(!arguments.nvml.empty());
  if (sources != 1) return options.Reject("one of --emulator, --drm and --nvml is needed");
  if (arguments.control.empty() != arguments.devices.empty())
    return options.Reject("--control and --device go together");
  return options.ExitStatusOf(Run(arguments));
}
