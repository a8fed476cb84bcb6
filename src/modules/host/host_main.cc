// SPDX-License-Identifier: Apache-2.0
// weir-module-host: weir-modules starts one for each device.
#include <unistd.h>

#include <cstdio>
#include <limits>

#include "modules/host/host.h"
#include "platform/service_options.h"

namespace {

constexpr const char* kAbout =
    "Usage: weir-module-host --fd FD --device N [--sub-device-units N] [--keep-bytes N]\n"
    "       weir-module-host --fd FD --inspect\n"
    "\n"
    "Runs kernels of modules on one device. weir-modules starts and controls it.\n";

}  // namespace

int main(int argc, char** argv) {
  weir::modules::HostOptions host;
  bool inspect = false;
  weir::platform::ServiceOptions options("weir-module-host", kAbout);
  options.AddDescriptor("--fd", host.fd, "the socket to weir-modules");
  options.AddWhole("--device", "N", host.device, 0, std::numeric_limits<std::uint32_t>::max(),
                   "which device of those that OpenCL shows");
  options.AddWhole("--sub-device-units", "N", host.units, 1, 1U << 16,
                   "counting parts of devices with N compute units each");
  options.AddWhole("--keep-bytes", "N", host.keep_bytes, 1, std::numeric_limits<std::uint64_t>::max(),
                   "residual data at most (default: a quarter of the device's memory)");
  options.AddFlag("--inspect", inspect, "only tell what one module exports");
  if (const auto ended = options.Parse(argc, argv)) return *ended;
  if (host.fd < 0) return options.Reject("weir-modules starts it");
  const weir::Status status = inspect ? weir::modules::InspectModule(host.fd) : RunHost(host);
  std::fflush(nullptr);
  // No destructors: modules' threads may still run.
  ::_exit(status ? 0 : weir::EntryOf(status.error().code).exit_code);
}
