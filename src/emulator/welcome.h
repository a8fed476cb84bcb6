// SPDX-License-Identifier: Apache-2.0
// The emulator's first message to a client: the devices, and the costs of the client's frames and kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "emulator/device_file.h"
#include "proto/emulator_messages.h"

namespace weir::emulator {

struct ClientDevice {
  std::string name, uuid, pci;
  Bytes memory{};
  std::uint32_t units = 0;
  std::uint32_t queue_depth = 0;  // commands that a queue holds; 0: no limit
  bool lost = false;
};

/// The cost of a frame of this program. `fixed` empty: the CPU time of drawing it, multiplied by `factor`.
struct ClientFrame {
  std::optional<Duration> fixed;
  double factor = 1;
  bool drawn = true;
};

struct WelcomeContents {
  std::vector<ClientDevice> devices;
  ClientFrame frame;
  std::vector<KernelCost> kernels;
  double kernel_factor = 1;
};

/// Parses the answer to a Hello. kUnavailable: the emulator refuses. kProtocol: the answer is malformed.
Result<WelcomeContents> ReadWelcome(const proto::emulator::Message& answer);

}  // namespace weir::emulator
