// SPDX-License-Identifier: Apache-2.0
// The few GL functions the shim itself calls, looked up in the program's current context.
#pragma once

#include <cstdint>
#include <string>

#include "shim/gl/hooks.h"

namespace weir::shim {

struct GlFunctions {
  using GlEnum = unsigned;
  const unsigned char* (*get_string)(GlEnum) = nullptr;
  void (*finish)() = nullptr;
  // Timestamps: GL 3.3, ARB_timer_query or EXT_disjoint_timer_query; null when there are none.
  void (*gen_queries)(int, unsigned*) = nullptr;
  void (*query_counter)(unsigned, GlEnum) = nullptr;
  void (*get_query_iv)(unsigned, GlEnum, int*) = nullptr;
  void (*get_query_ui64)(unsigned, GlEnum, std::uint64_t*) = nullptr;

  [[nodiscard]] bool HasTimestamps() const {
    return gen_queries != nullptr && query_counter != nullptr && get_query_iv != nullptr && get_query_ui64 != nullptr;
  }
  /// GL_RENDERER of the current context; empty when there is none.
  [[nodiscard]] std::string Renderer() const;
};

/// Core functions may not come from EGL's GetProcAddress (before EGL 1.5), so the libraries themselves are asked too.
GlFunctions LookUpGl(weir_gl_get_proc get_proc);

/// Renders on CPUs: llvmpipe, softpipe, SwiftShader.
bool IsSoftwareRenderer(const std::string& renderer);

}  // namespace weir::shim
