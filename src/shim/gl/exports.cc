// SPDX-License-Identifier: Apache-2.0
// The shim's only export, and what a fork does to it.
#include <pthread.h>

#include <atomic>
#include <cstdlib>

#include "shim/gl/shim.h"

namespace {

using weir::shim::GlShim;

std::atomic<GlShim*> shim_instance{nullptr};

GlShim* MakeShim() noexcept {
  try {
    const char* attach = ::secure_getenv("WEIR_ATTACH");
    const char* meter = ::secure_getenv("WEIR_METER");
    return new GlShim(attach != nullptr ? attach : "", meter != nullptr ? meter : "auto");
  } catch (...) {
    return nullptr;
  }
}

// The child must not write into its parent's region nor use its locks: it starts anew and attaches by itself. The
// parent's object is left as it is; its memory is the child's own copy, and nobody can say what state a lock is in.
void InChild() {
  if (GlShim* inherited = shim_instance.exchange(nullptr, std::memory_order_relaxed)) inherited->AbandonInChild();
}

// Never destroyed: threads of the program may present until the very end.
GlShim* Shim() noexcept {
  GlShim* shim = shim_instance.load(std::memory_order_acquire);
  if (shim != nullptr) return shim;
  GlShim* made = MakeShim();
  if (made == nullptr) return nullptr;
  if (shim_instance.compare_exchange_strong(shim, made, std::memory_order_acq_rel)) return made;
  delete made;
  return shim;
}

void BeforePresent(weir_gl_present* present, unsigned long long surface, weir_gl_get_proc get_proc) {
  *present = {};
  if (GlShim* shim = Shim()) shim->BeforePresent(*present, surface, get_proc);
}
void AfterPresent(weir_gl_present* present) {
  if (GlShim* shim = Shim()) shim->AfterPresent(*present);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const weir_gl_hooks* weir_gl_shim_hooks(void) {
  static const weir_gl_hooks kHooks = {WEIR_GL_HOOKS_VERSION, &BeforePresent, &AfterPresent};
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, &InChild);
  return kRegistered == 0 ? &kHooks : nullptr;
}
