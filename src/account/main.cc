// SPDX-License-Identifier: Apache-2.0
// weir-gpu-account: reports the driver's account of each process to the daemon, because the daemon itself opens no
// driver.
#include <getopt.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "account/drm_fdinfo.h"
#include "account/drm_source.h"
#include "account/emulator_source.h"
#include "account/nvml_source.h"
#include "http/client.h"
#include "http/json_api.h"
#include "platform/clock.h"
#include "platform/option_error.h"
#include "platform/process.h"

namespace {

using namespace weir;

/// Charges are corrected ten times a second: a share is then right within a second, at the cost of 0.1 % of a CPU.
constexpr int kEveryMs = 100;
constexpr Duration kAnswerWithin = seconds(2);

constexpr const char* kUsage =
    "Usage: weir-gpu-account SOURCE [--control SOCKET --device NAME ...] [OPTIONS]\n"
    "\n"
    "Reads the time for which each process has used a device from the device's driver. 'weir serve' starts it for its\n"
    "devices. Without --control it prints the account once.\n"
    "\n"
    "SOURCE is one of:\n"
    "  --emulator SOCKET  the devices of weir-emulated-gpu\n"
    "  --drm ADDRESS      a GPU with a DRM driver of Linux (amdgpu, i915, ...), by its PCI address: the files\n"
    "                     /proc/PID/fdinfo. Those of other users are read by root only\n"
    "  --nvml GPU         an NVIDIA GPU, by index, UUID or PCI address; printed is the use of two seconds\n"
    "\n"
    "  --control SOCKET   tell the daemon at this socket, ten times a second\n"
    "  --device NAME      the daemon's name of the source's first device; again for its second, and so on\n"
    "  --parent PID       end when this process has ended\n"
    "  --proc FOLDER      with --drm: read this folder (default: /proc)\n"
    "  --library FILE     with --nvml: NVML (default: libnvidia-ml.so.1)\n"
    "\n"
    "EXAMPLES\n"
    "  weir-gpu-account --emulator /run/weir/emulator-0.sock\n"
    "  weir-gpu-account --drm 0000:03:00.0\n";

int Failed(const Error& error) {
  std::fprintf(stderr, "weir-gpu-account: %s\n", error.message.c_str());
  return EntryOf(error.code).exit_code;
}

int Usage(const char* what) {
  std::fprintf(stderr, "weir-gpu-account: %s; see weir-gpu-account --help\n", what);
  return 2;
}

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
  for (const Instant end = platform::Now() + over; platform::Now() < end; ::poll(nullptr, 0, kEveryMs))
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

/// Runs until the parent has ended, or forever. A failure is printed once and retried.
Status Watch(account::Source& source, const std::string& control, const std::vector<std::string>& devices,
             int parent_pid) {
  platform::Fd parent;
  if (parent_pid != 0) {
    WEIR_TRY(parent, platform::OpenPidFd(parent_pid));
  }
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
    pollfd ended{.fd = parent.get(), .events = POLLIN, .revents = 0};
    if (::poll(&ended, 1, kEveryMs) > 0) return Ok();
  }
}

}  // namespace

int main(int argc, char** argv) {
  enum { kEmulator = 1, kDrm, kNvml, kControl, kDevice, kParent, kProc, kLibrary };
  constexpr option kOptions[] = {{"emulator", required_argument, nullptr, kEmulator},
                                 {"drm", required_argument, nullptr, kDrm},
                                 {"nvml", required_argument, nullptr, kNvml},
                                 {"control", required_argument, nullptr, kControl},
                                 {"device", required_argument, nullptr, kDevice},
                                 {"parent", required_argument, nullptr, kParent},
                                 {"proc", required_argument, nullptr, kProc},
                                 {"library", required_argument, nullptr, kLibrary},
                                 {"help", no_argument, nullptr, 'h'},
                                 {nullptr, 0, nullptr, 0}};
  std::string emulator, drm, nvml, control, proc = "/proc", library = nvml::kLibrary;
  std::vector<std::string> devices;
  int parent = 0;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    switch (which) {
      case kEmulator: emulator = optarg; break;
      case kDrm: drm = optarg; break;
      case kNvml: nvml = optarg; break;
      case kControl: control = optarg; break;
      case kDevice: devices.emplace_back(optarg); break;
      case kParent: parent = std::atoi(optarg); break;
      case kProc: proc = optarg; break;
      case kLibrary: library = optarg; break;
      case 'h': std::fputs(kUsage, stdout); return 0;
      default: return Usage(platform::OptionError(which, argv).c_str());
    }
  }
  if (optind != argc) return Usage("an argument too many");
  if (static_cast<int>(!emulator.empty()) + static_cast<int>(!drm.empty()) + static_cast<int>(!nvml.empty()) != 1)
    return Usage("one of --emulator, --drm and --nvml is needed");
  if (control.empty() != devices.empty()) return Usage("--control and --device go together");
  std::unique_ptr<account::Source> source;
  if (!drm.empty()) {
    source = std::make_unique<account::DrmSource>(drm, proc, [] { return platform::Now(); });
  } else if (!nvml.empty()) {
    source = std::make_unique<account::NvmlSource>(nvml, library);
  } else {
    source = std::make_unique<account::EmulatorSource>(emulator);
  }
  const Status status = !control.empty()    ? Watch(*source, control, devices, parent)
                        : !emulator.empty() ? PrintEmulator(emulator)
                                            : Print(*source, nvml.empty() ? Duration{} : seconds(2));
  return status ? 0 : Failed(status.error());
}
