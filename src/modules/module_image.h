// SPDX-License-Identifier: Apache-2.0
// Checks whether a file is a module before it is opened, because opening it runs its code. The bytes are not trusted.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace weir::modules {

/// Succeeds for a shared object of this machine's architecture that exports weir_module_v1 (include/weir/module.h) as
/// an object in its own data. kInvalidArgument says which requirement fails.
Status CheckModuleImage(std::span<const std::byte> file);

}  // namespace weir::modules
