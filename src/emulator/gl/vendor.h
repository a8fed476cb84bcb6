// SPDX-License-Identifier: Apache-2.0
// What the exported functions share: the process's driver, the CPU driver below, and the current context.
#pragma once

#include "emulator/gl/driver.h"
#include "emulator/gl/hook.h"

namespace weir::emulator::gl {

/// The driver of this process. Made at the first call and never destroyed, because threads of the program may still
/// draw while it exits.
Driver& TheDriver() noexcept;

/// Connects to the emulator at the first call. Must be called before Mesa makes its first screen, because Mesa then
/// reads the environment that this sets.
void Start() noexcept;

/// The hook of this name, after storing `mesa` in its slot. Returns `mesa` if no hook has this name, or `mesa` is null.
void* Resolve(std::span<const Hook> window_system, const char* name, void* mesa) noexcept;

/// Identifies the context that is current in this thread. Null: none.
const void* CurrentContext() noexcept;
void SetCurrentGlxContext(const void* (*current)()) noexcept;
void SetCurrentEglContext(const void* (*current)()) noexcept;

}  // namespace weir::emulator::gl
