// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

namespace weir::device {

Device EmbeddedDevice() { return {.spec = {.name = "embedded", .kind = kSoftware, .cpus = {}}, .driver = {}}; }

std::vector<std::string> ArgvOf(const MemoryWatch& watch, const std::string& control, int parent) {
  std::vector<std::string> argv{watch.program, "--gpu",      watch.gpu,
                                "--device",    watch.device, "--control",
                                control,       "--parent",   std::to_string(parent)};
  if (!watch.nvml_library.empty()) argv.insert(argv.end(), {"--library", watch.nvml_library});
  return argv;
}

std::vector<std::string> ArgvOf(const Account& account, const std::string& control, int parent) {
  std::vector<std::string> argv{account.program, "--control", control, "--parent", std::to_string(parent)};
  argv.insert(argv.end(), account.source.begin(), account.source.end());
  for (const std::string& device : account.devices) argv.insert(argv.end(), {"--device", device});
  return argv;
}

std::vector<std::string> ArgvOf(const Emulator& emulator, int parent) {
  return {emulator.program, "--devices", emulator.description,  "--socket",
          emulator.socket,  "--parent",  std::to_string(parent)};
}

}  // namespace weir::device
