// SPDX-License-Identifier: Apache-2.0
// libGLX_weiremulated.so.0, which glvnd's GLX library opens for __GLX_VENDOR_LIBRARY_NAME=weiremulated. It behaves as
// Mesa's vendor library except for the hooked functions.
#include <GL/glx.h>
#include <GL/glxext.h>
#include <dlfcn.h>
#include <glvnd/libglxabi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "emulator/gl/swap_interval.h"
#include "emulator/gl/vendor.h"
#include "platform/pthread_lock.h"

namespace weir::emulator::gl {
namespace {

constexpr const char* kMesaGlx = "libGLX_mesa.so.0";
__GLXapiImports mesa_glx;
const __GLXapiExports* glvnd_glx = nullptr;
SwapInterval glx_interval;

void BeforeGlxSwap() {
  if (!TheDriver().measured()) TheDriver().Flush();
}

void SwapBuffers(Display* display, GLXDrawable drawable) noexcept {
  BeforeGlxSwap();
  Mesa<"glXSwapBuffers", decltype(&::glXSwapBuffers)>()(display, drawable);
  TheDriver().Swap(glx_interval.Get());
}

int64_t SwapBuffersMsc(Display* display, GLXDrawable drawable, int64_t target, int64_t divisor, int64_t rest) noexcept {
  BeforeGlxSwap();
  const auto mesa = Mesa<"glXSwapBuffersMscOML", PFNGLXSWAPBUFFERSMSCOMLPROC>();
  const int64_t result = mesa(display, drawable, target, divisor, rest);
  TheDriver().Swap(glx_interval.Get());
  return result;
}

void WaitGl() noexcept {
  Mesa<"glXWaitGL", decltype(&::glXWaitGL)>()();
  TheDriver().Finish();
}

// Mesa's software renderer shows a frame at once and has no swap interval, so the interval is kept here.
void SetIntervalExt(Display*, GLXDrawable, int interval) noexcept { glx_interval.Set(interval); }
int SetIntervalMesa(unsigned interval) noexcept { return glx_interval.Set(static_cast<int>(interval)), 0; }
int SetIntervalSgi(int interval) noexcept { return glx_interval.Set(interval), 0; }
int GetIntervalMesa() noexcept { return static_cast<int>(glx_interval.Get()); }

/// Answers queries about the interval, because Mesa would call a function that its software renderer does not have.
void QueryDrawable(Display* display, GLXDrawable drawable, int attribute, unsigned* value) noexcept {
  switch (attribute) {
    case GLX_SWAP_INTERVAL_EXT: *value = glx_interval.Get(); return;
    case GLX_MAX_SWAP_INTERVAL_EXT: *value = SwapInterval::kMax; return;
    case GLX_LATE_SWAPS_TEAR_EXT: *value = 0; return;
    default: return Mesa<"glXQueryDrawable", decltype(&::glXQueryDrawable)>()(display, drawable, attribute, value);
  }
}

/// Mesa's extensions and those that control the interval. One text for a process, because all screens have the same
/// renderer.
const char* ExtensionsString(Display* display, int screen) noexcept {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static std::string& text = *new std::string;
  const char* mesa = Mesa<"glXQueryExtensionsString", decltype(&::glXQueryExtensionsString)>()(display, screen);
  if (mesa == nullptr || !TheDriver().active()) return mesa;
  const platform::PthreadLock lock(mutex);
  try {
    if (text.empty()) {
      std::string made = mesa;
      for (const char* name : {"GLX_EXT_swap_control", "GLX_MESA_swap_control", "GLX_SGI_swap_control"})
        if ((" " + made + " ").find(std::string(" ") + name + " ") == std::string::npos)
          made += std::string(" ") + name;
      text = std::move(made);
    }
    return text.c_str();
  } catch (...) {
    return mesa;
  }
}

void* GlxProc(const GLubyte* name) noexcept {
  return Resolve(GlxHooks(), reinterpret_cast<const char*>(name), mesa_glx.getProcAddress(name));
}

const void* CurrentGlxContext() { return glvnd_glx->getCurrentContext(); }

}  // namespace

std::span<const Hook> GlxHooks() {
  static const Hook kHooks[] = {
      MakeHook<"glXSwapBuffers">(&SwapBuffers),
      MakeHook<"glXSwapBuffersMscOML">(&SwapBuffersMsc),
      MakeHook<"glXWaitGL">(&WaitGl),
      MakeHook<"glXSwapIntervalEXT">(&SetIntervalExt),
      MakeHook<"glXSwapIntervalMESA">(&SetIntervalMesa),
      MakeHook<"glXSwapIntervalSGI">(&SetIntervalSgi),
      MakeHook<"glXGetSwapIntervalMESA">(&GetIntervalMesa),
      MakeHook<"glXQueryDrawable">(&QueryDrawable),
      MakeHook<"glXQueryExtensionsString">(&ExtensionsString),
  };
  return kHooks;
}

}  // namespace weir::emulator::gl

extern "C" __attribute__((visibility("default"))) Bool __glx_Main(uint32_t version, const __GLXapiExports* exports,
                                                                  __GLXvendorInfo* vendor, __GLXapiImports* imports) {
  using namespace weir::emulator::gl;  // NOLINT: an exported C function
  Start();
  void* library = ::dlopen(kMesaGlx, RTLD_LAZY | RTLD_LOCAL);
  void* main = library != nullptr ? ::dlsym(library, __GLX_MAIN_PROTO_NAME) : nullptr;
  if (main == nullptr) {
    std::fprintf(stderr, "weir: the emulated GPU's OpenGL needs Mesa's: %s\n", ::dlerror());
    return False;
  }
  if (reinterpret_cast<__PFNGLXMAINPROC>(main)(version, exports, vendor, imports) == False) return False;
  mesa_glx = *imports;
  glvnd_glx = exports;
  SetCurrentGlxContext(CurrentGlxContext);
  imports->getProcAddress = [](const GLubyte* name) -> void* { return GlxProc(name); };
  return True;
}
