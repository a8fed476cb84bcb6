// SPDX-License-Identifier: Apache-2.0
// Is this file a module? Looked at before it is opened, because opening runs its code. The bytes are not trusted.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace weir::modules {

/// A shared object of this machine that exports weir_module_v1 (include/weir/module.h) as an object in its own data.
/// kInvalidArgument says what it is not.
Status CheckModuleImage(std::span<const std::byte> file);

}  // namespace weir::modules
