// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir::emulator::cuda {

/// The address of an exported function; null: there is no function of that name.
void* Exported(const std::string& name);

}  // namespace weir::emulator::cuda
