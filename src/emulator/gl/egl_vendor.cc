// SPDX-License-Identifier: Apache-2.0
// libEGL_weiremulated.so.0, which glvnd's EGL library opens for the JSON file that __EGL_VENDOR_LIBRARY_FILENAMES
// names. It behaves as Mesa's vendor library except for the hooked functions. It is the same file as the GLX vendor
// library, so that a process that uses both has one driver.
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <dlfcn.h>
#include <glvnd/libeglabi.h>

#include <cstdio>

#include "emulator/gl/swap_interval.h"
#include "emulator/gl/vendor.h"
#include "platform/clock.h"

namespace weir::emulator::gl {
namespace {

constexpr const char* kMesaEgl = "libEGL_mesa.so.0";
__EGLapiImports mesa_egl;
const __EGLapiExports* glvnd_egl = nullptr;
SwapInterval egl_interval;

/// Ends a frame with Mesa's function that shows it, and with the model's time.
template <typename F, typename... A>
EGLBoolean EglSwap(F mesa, A... arguments) {
  if (!TheDriver().measured()) TheDriver().Flush();
  const EGLBoolean done = mesa(arguments...);
  if (done == EGL_TRUE) TheDriver().Swap(egl_interval.Get());
  return done;
}

EGLBoolean SwapBuffersEgl(EGLDisplay display, EGLSurface surface) noexcept {
  return EglSwap(Mesa<"eglSwapBuffers", decltype(&::eglSwapBuffers)>(), display, surface);
}

template <Name N>
EGLBoolean SwapWithDamage(EGLDisplay display, EGLSurface surface, const EGLint* rectangles, EGLint count) noexcept {
  using F = EGLBoolean (*)(EGLDisplay, EGLSurface, const EGLint*, EGLint);
  return EglSwap(Mesa<N, F>(), display, surface, rectangles, count);
}

EGLBoolean SetInterval(EGLDisplay display, EGLint interval) noexcept {
  const EGLBoolean done = Mesa<"eglSwapInterval", decltype(&::eglSwapInterval)>()(display, interval);
  if (done == EGL_TRUE) egl_interval.Set(interval);
  return done;
}

EGLBoolean WaitClient() noexcept {
  const EGLBoolean done = Mesa<"eglWaitClient", decltype(&::eglWaitClient)>()();
  TheDriver().Finish();
  return done;
}

EGLBoolean WaitGlEgl() noexcept {
  const EGLBoolean done = Mesa<"eglWaitGL", decltype(&::eglWaitGL)>()();
  TheDriver().Finish();
  return done;
}

template <Name N, typename Attribute>
EGLSync CreateSync(EGLDisplay display, EGLenum type, const Attribute* attributes) noexcept {
  if (TheDriver().measured() && TheDriver().Drawn() && mesa_slot<"glFinish"> != nullptr)
    Mesa<"glFinish", void (*)()>()();
  const EGLSync sync = Mesa<N, EGLSync (*)(EGLDisplay, EGLenum, const Attribute*)>()(display, type, attributes);
  if (type == EGL_SYNC_FENCE) TheDriver().Fence(sync);
  return sync;
}

template <Name N>
EGLBoolean DestroySync(EGLDisplay display, EGLSync sync) noexcept {
  TheDriver().ForgetFence(sync);
  return Mesa<N, decltype(&::eglDestroySync)>()(display, sync);
}

template <Name N>
EGLint ClientWaitSyncEgl(EGLDisplay display, EGLSync sync, EGLint flags, EGLTime timeout) noexcept {
  if ((flags & EGL_SYNC_FLUSH_COMMANDS_BIT) != 0) TheDriver().Flush();
  const std::int64_t from_ns = platform::NowNs();
  const EGLint mesa = Mesa<N, decltype(&::eglClientWaitSync)>()(display, sync, flags, timeout);
  if (mesa != EGL_CONDITION_SATISFIED) return mesa;
  const auto passed = static_cast<EGLTime>(platform::NowNs() - from_ns);
  return TheDriver().WaitFence(sync, timeout > passed ? timeout - passed : 0) ? EGL_CONDITION_SATISFIED
                                                                              : EGL_TIMEOUT_EXPIRED;
}

template <Name N, typename Value>
EGLBoolean GetSync(EGLDisplay display, EGLSync sync, EGLint name, Value* value) noexcept {
  const EGLBoolean done = Mesa<N, EGLBoolean (*)(EGLDisplay, EGLSync, EGLint, Value*)>()(display, sync, name, value);
  if (done == EGL_TRUE && name == EGL_SYNC_STATUS && value != nullptr && *value == EGL_SIGNALED &&
      !TheDriver().Signaled(sync))
    *value = EGL_UNSIGNALED;
  return done;
}

void* EglProc(const char* name) noexcept { return Resolve(EglHooks(), name, mesa_egl.getProcAddress(name)); }

const void* CurrentEglContext() { return glvnd_egl->getCurrentContext(); }

}  // namespace

std::span<const Hook> EglHooks() {
  static const Hook kHooks[] = {
      MakeHook<"eglSwapBuffers">(&SwapBuffersEgl),
      MakeHook<"eglSwapBuffersWithDamageKHR">(&SwapWithDamage<"eglSwapBuffersWithDamageKHR">),
      MakeHook<"eglSwapBuffersWithDamageEXT">(&SwapWithDamage<"eglSwapBuffersWithDamageEXT">),
      MakeHook<"eglSwapInterval">(&SetInterval),
      MakeHook<"eglWaitClient">(&WaitClient),
      MakeHook<"eglWaitGL">(&WaitGlEgl),
      MakeHook<"eglCreateSync">(&CreateSync<"eglCreateSync", EGLAttrib>),
      MakeHook<"eglCreateSyncKHR">(&CreateSync<"eglCreateSyncKHR", EGLint>),
      MakeHook<"eglCreateSync64KHR">(&CreateSync<"eglCreateSync64KHR", EGLAttribKHR>),
      MakeHook<"eglDestroySync">(&DestroySync<"eglDestroySync">),
      MakeHook<"eglDestroySyncKHR">(&DestroySync<"eglDestroySyncKHR">),
      MakeHook<"eglClientWaitSync">(&ClientWaitSyncEgl<"eglClientWaitSync">),
      MakeHook<"eglClientWaitSyncKHR">(&ClientWaitSyncEgl<"eglClientWaitSyncKHR">),
      MakeHook<"eglGetSyncAttrib">(&GetSync<"eglGetSyncAttrib", EGLAttrib>),
      MakeHook<"eglGetSyncAttribKHR">(&GetSync<"eglGetSyncAttribKHR", EGLint>),
  };
  return kHooks;
}

}  // namespace weir::emulator::gl

extern "C" __attribute__((visibility("default"))) EGLBoolean __egl_Main(uint32_t version,
                                                                        const __EGLapiExports* exports,
                                                                        __EGLvendorInfo* vendor,
                                                                        __EGLapiImports* imports) {
  using namespace weir::emulator::gl;  // NOLINT: an exported C function
  Start();
  void* library = ::dlopen(kMesaEgl, RTLD_LAZY | RTLD_LOCAL);
  void* main = library != nullptr ? ::dlsym(library, __EGL_MAIN_PROTO_NAME) : nullptr;
  if (main == nullptr) {
    std::fprintf(stderr, "weir: the emulated GPU's EGL needs Mesa's: %s\n", ::dlerror());
    return EGL_FALSE;
  }
  if (reinterpret_cast<__PFNEGLMAINPROC>(main)(version, exports, vendor, imports) != EGL_TRUE) return EGL_FALSE;
  mesa_egl = *imports;
  glvnd_egl = exports;
  SetCurrentEglContext(CurrentEglContext);
  imports->getProcAddress = [](const char* name) -> void* { return EglProc(name); };
  return EGL_TRUE;
}
