// SPDX-License-Identifier: Apache-2.0
// What the exported functions share: the process's driver, the CPU driver below, and the current context.
#pragma once

#include "emulator/gl/driver.h"
#include "emulator/gl/hook.h"

namespace weir::emulator::gl {

/// Made at the first call and never destroyed: threads of the program may still draw while it exits.
Driver& TheDriver() noexcept;

/// Connects to the emulator at the first call. Before Mesa makes its first screen, which reads the environment.
void Start() noexcept;

/// Our function of this name, with Mesa's noted in its slot; `mesa` itself when we have none, or Mesa has none.
void* Resolve(std::span<const Hook> window_system, const char* name, void* mesa) noexcept;

/// Names the context that is current in this thread. Null: none.
const void* CurrentContext() noexcept;
void SetCurrentGlxContext(const void* (*current)()) noexcept;
void SetCurrentEglContext(const void* (*current)()) noexcept;

}  // namespace weir::emulator::gl
