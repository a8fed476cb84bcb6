// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/port.h"

namespace weir::emulator::gl {

std::unique_ptr<Port> ConnectPort(std::function<void()> /*gone*/, std::string& error) {
  error = "this build has no client of the emulator";
  return nullptr;
}

}  // namespace weir::emulator::gl
