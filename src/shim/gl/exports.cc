// SPDX-License-Identifier: Apache-2.0
// The shim's only export, and its handling of fork.
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

// The child must use neither its parent's region nor its locks: it creates a new shim, which attaches by itself. The
// inherited object is abandoned; its memory is the child's own copy, and the state of its locks is unknown.
void InChild() {
  if (GlShim* inherited = shim_instance.exchange(nullptr, std::memory_order_relaxed)) inherited->AbandonInChild();
}

// Never destroyed: the program's threads may present until the process ends.
GlShim* Shim() noexcept {
  GlShim* shim = shim_instance.load(std::memory_order_acquire);
  if (shim != nullptr) return shim;
  GlShim* made = MakeShim();
  if (made == nullptr) return nullptr;
  if (shim_instance.compare_exchange_strong(shim, made, std::memory_order_acq_rel)) return made;
  delete made;
  return shim;
}

void BeforePresent(weir_gl_present* present, unsigned long long surface, weir_gl_place place) {
  *present = {};
  if (GlShim* shim = Shim()) shim->BeforePresent(*present, surface, place);
}
void AfterPresent(weir_gl_present* present) {
  if (GlShim* shim = Shim()) shim->AfterPresent(*present);
}
void BeforeBatchCall(weir_gl_present* present, weir_gl_call call, weir_gl_place place) {
  *present = {};
  if (GlShim* shim = Shim()) shim->BeforeBatchCall(*present, call, place);
}
void AfterBatchCall(weir_gl_present* present) {
  if (GlShim* shim = Shim()) shim->AfterBatchCall(*present);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const weir_gl_hooks* weir_gl_shim_hooks(void) {
  static const weir_gl_hooks kHooks = {WEIR_GL_HOOKS_VERSION, &BeforePresent, &AfterPresent, &BeforeBatchCall,
                                       &AfterBatchCall};
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, &InChild);
  return kRegistered == 0 ? &kHooks : nullptr;
}
