// SPDX-License-Identifier: Apache-2.0
#include "emulator/gl/vendor.h"

#include <pthread.h>
#include <stdlib.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "emulator/gl/renderer_cpu.h"
#include "platform/clock.h"

namespace weir::emulator::gl {
namespace {

std::atomic<const void* (*)()> glx_context{nullptr};
std::atomic<const void* (*)()> egl_context{nullptr};
pthread_once_t started = PTHREAD_ONCE_INIT;

Driver* MakeDriver() {
  auto* cpu = new RendererCpu;  // like the driver, never destroyed
  return new Driver([cpu] { return cpu->Used(); }, [] { return platform::Now(); });
}

void Connect() {
  try {
    std::string error;
    auto port = ConnectPort(
        {.gone = [] { TheDriver().Abandon("the emulated GPU is gone"); }, .lost = [] { TheDriver().Lose(); }}, error);
    // Set before Mesa reads its variables. Mesa renders on the CPU also on a machine with a GPU.
    ::setenv("LIBGL_ALWAYS_SOFTWARE", "1", 0);
    if (port == nullptr) {
      std::fprintf(stderr, "weir: no emulated GPU: %s; OpenGL runs without its timing\n", error.c_str());
      return;
    }
    if (!port->drawn()) ::setenv("GALLIUM_NOOP", "1", 1);
    TheDriver().Use(std::move(port));
    ::pthread_atfork(nullptr, nullptr, [] { TheDriver().AbandonInChild(); });
  } catch (...) {
    std::fputs("weir: no emulated GPU: out of memory\n", stderr);
  }
}

const Hook* Find(std::span<const Hook> hooks, const char* name) {
  for (const Hook& hook : hooks)
    if (std::strcmp(hook.name, name) == 0) return &hook;
  return nullptr;
}

}  // namespace

Driver& TheDriver() noexcept {
  static Driver& driver = *MakeDriver();
  return driver;
}

void Start() noexcept { ::pthread_once(&started, Connect); }

void* Resolve(std::span<const Hook> window_system, const char* name, void* mesa) noexcept {
  if (mesa == nullptr || name == nullptr) return mesa;
  for (const auto hooks : {window_system, GlHooks(), DrawHooks()}) {
    const Hook* hook = Find(hooks, name);
    if (hook == nullptr) continue;
    hook->slot->store(mesa, std::memory_order_relaxed);
    return hook->ours;
  }
  return mesa;
}

const void* CurrentContext() noexcept {
  for (const auto* source : {&glx_context, &egl_context}) {
    const auto current = source->load(std::memory_order_relaxed);
    const void* context = current != nullptr ? current() : nullptr;
    if (context != nullptr) return context;
  }
  return nullptr;
}

void SetCurrentGlxContext(const void* (*current)()) noexcept { glx_context = current; }
void SetCurrentEglContext(const void* (*current)()) noexcept { egl_context = current; }

}  // namespace weir::emulator::gl
