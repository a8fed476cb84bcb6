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
  void (*flush)() = nullptr;
  // Timestamps: GL 3.3, ARB_timer_query or EXT_disjoint_timer_query; null when there are none.
  void (*gen_queries)(int, unsigned*) = nullptr;
  void (*query_counter)(unsigned, GlEnum) = nullptr;
  void (*get_query_iv)(unsigned, GlEnum, int*) = nullptr;
  void (*get_query_ui64)(unsigned, GlEnum, std::uint64_t*) = nullptr;

  // Fences: GL 3.2 or GLES 3.0.
  using GlSync = struct OpaqueSync*;
  GlSync (*fence_sync)(GlEnum, unsigned) = nullptr;
  unsigned char (*is_sync)(GlSync) = nullptr;
  GlEnum (*client_wait_sync)(GlSync, unsigned, std::uint64_t) = nullptr;
  void (*delete_sync)(GlSync) = nullptr;

  /// Whether the context that is current now has fences: calling what it lacks would leave an error in it.
  [[nodiscard]] bool HasFences() const;
  [[nodiscard]] bool HasTimestamps() const {
    return gen_queries != nullptr && query_counter != nullptr && get_query_iv != nullptr && get_query_ui64 != nullptr;
  }
  /// GL_RENDERER of the current context; empty when there is none.
  [[nodiscard]] std::string Renderer() const;
};

/// Core functions may not come from EGL's GetProcAddress (before EGL 1.5), so the libraries themselves are asked too.
GlFunctions LookUpGl(weir_gl_get_proc get_proc);

/// Version of a context as GL_VERSION tells it; zero when it makes no sense.
struct GlVersion {
  bool es = false;
  int major = 0;
  int minor = 0;
  [[nodiscard]] bool AtLeast(int wanted_major, int wanted_minor) const {
    return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
  }
};
GlVersion ParseGlVersion(const char* text);

/// Renders on CPUs: llvmpipe, softpipe, SwiftShader.
bool IsSoftwareRenderer(const std::string& renderer);

/// An emulated GPU: its name ends in "(emulated)".
bool IsEmulatedRenderer(const std::string& renderer);

}  // namespace weir::shim
