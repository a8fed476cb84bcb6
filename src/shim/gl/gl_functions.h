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
  // Timestamps: GL 3.3, ARB_timer_query or EXT_disjoint_timer_query; null if unavailable.
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

  /// Whether the current context has fences. A call to a missing function would leave an error in the context.
  [[nodiscard]] bool HasFences() const;
  /// Inserts a fence behind all earlier work. Null: the driver could not create one. Requires HasFences(), as
  /// AwaitFence does.
  [[nodiscard]] GlSync InsertFence() const;
  /// Waits for the fence, for at most 0.1 s because the GPU may hang, and deletes it. False: the fence was not
  /// signaled, is null, or belongs to another context; a fence of another context is not deleted.
  [[nodiscard]] bool AwaitFence(GlSync fence) const;
  [[nodiscard]] bool HasTimestamps() const {
    return gen_queries != nullptr && query_counter != nullptr && get_query_iv != nullptr && get_query_ui64 != nullptr;
  }
  /// GL_RENDERER of the current context; empty without a context.
  [[nodiscard]] std::string Renderer() const;
};

/// EGL's GetProcAddress before EGL 1.5 may not return core functions, so the libraries are searched too.
GlFunctions LookUpGl(weir_gl_get_proc get_proc);

/// The version in a context's GL_VERSION; zero if it can't be parsed.
struct GlVersion {
  bool es = false;
  int major = 0;
  int minor = 0;
  [[nodiscard]] bool AtLeast(int wanted_major, int wanted_minor) const {
    return major > wanted_major || (major == wanted_major && minor >= wanted_minor);
  }
};
GlVersion ParseGlVersion(const char* text);

/// Whether the renderer is an emulated GPU: its name ends in "(emulated)".
bool IsEmulatedRenderer(const std::string& renderer);

}  // namespace weir::shim
