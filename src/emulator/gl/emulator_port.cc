// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/port.h"
namespace weir::emulator::gl {
std::unique_ptr<Port> ConnectPort(std::function<void()>, std::string& error) {
  error = "not built";
  return nullptr;
}
}  // namespace weir::emulator::gl
