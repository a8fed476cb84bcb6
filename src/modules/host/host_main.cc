// SPDX-License-Identifier: Apache-2.0
// weir-module-host: weir-modules starts one for each device.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "modules/host/host.h"
#include "platform/option_error.h"

namespace {

constexpr const char* kUsage =
    "Usage: weir-module-host --fd N --store DIR --device N [--sub-device-units N] [--keep-bytes N]\n"
    "       weir-module-host --fd N --store DIR --inspect SHA256\n"
    "\n"
    "Runs kernels of modules on one device. weir-modules starts and controls it.\n"
    "\n"
    "  --fd N                  the socket to weir-modules\n"
    "  --store DIR             the folder of blobs\n"
    "  --device N              which device of those that OpenCL shows\n"
    "  --sub-device-units N    counting parts of devices with N compute units each\n"
    "  --keep-bytes N          residual data at most (default: a quarter of the device's memory)\n"
    "  --inspect SHA256        only print what this module exports\n";

enum Option { kFd = 1, kStore, kDevice, kUnits, kKeep, kInspect, kHelp };
constexpr option kOptions[] = {{"fd", required_argument, nullptr, kFd},
                               {"store", required_argument, nullptr, kStore},
                               {"device", required_argument, nullptr, kDevice},
                               {"sub-device-units", required_argument, nullptr, kUnits},
                               {"keep-bytes", required_argument, nullptr, kKeep},
                               {"inspect", required_argument, nullptr, kInspect},
                               {"help", no_argument, nullptr, kHelp},
                               {nullptr, 0, nullptr, 0}};

bool Whole(const char* text, std::uint64_t& value) {
  char* end = nullptr;
  value = std::strtoull(text, &end, 10);
  return end != text && *end == '\0' && std::strchr(text, '-') == nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  weir::modules::HostOptions options;
  std::string inspect;
  for (int which = 0; (which = ::getopt_long(argc, argv, ":h", kOptions, nullptr)) != -1;) {
    std::uint64_t value = 0;
    const bool numeric = which == kFd || which == kDevice || which == kUnits || which == kKeep;
    if (numeric && !Whole(optarg, value)) {
      std::fprintf(stderr, "weir-module-host: '%s' is not a whole number\n", optarg);
      return 2;
    }
    switch (which) {
      case kFd: options.fd = static_cast<int>(value); break;
      case kStore: options.store = optarg; break;
      case kDevice: options.device = static_cast<std::uint32_t>(value); break;
      case kUnits: options.units = static_cast<std::uint32_t>(value); break;
      case kKeep: options.keep_bytes = value; break;
      case kInspect: inspect = optarg; break;
      case 'h':
      case kHelp: std::fputs(kUsage, stdout); return 0;
      default:
        std::fprintf(stderr, "weir-module-host: %s; see weir-module-host --help\n",
                     weir::platform::OptionError(which, argv).c_str());
        return 2;
    }
  }
  if (options.fd < 0 || options.store.empty()) {
    std::fputs("weir-module-host: weir-modules starts it; see weir-module-host --help\n", stderr);
    return 2;
  }
  const weir::Status status =
      inspect.empty() ? RunHost(options) : weir::modules::InspectModule(options.fd, options.store, inspect);
  std::fflush(nullptr);
  // No destructors: modules' threads may still run.
  ::_exit(status ? 0 : weir::EntryOf(status.error().code).exit_code);
}
