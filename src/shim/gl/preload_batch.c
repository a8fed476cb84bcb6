/* SPDX-License-Identifier: Apache-2.0
 * Threads that present nothing: their flushes, waits, readbacks and dispatches may end batches (docs/off-screen.md). A
 * thread that presents pays a subtraction and a branch for a flush, and a read of the coarse clock for the others. */
#define _GNU_SOURCE
#include <stddef.h>
#include <time.h>

#include "shim/gl/preload.h"

/* -- Does this thread present? ----------------------------------------------------------------------------------- */

/* A thread counts as presenting for this time after its last present. */
static const long long kPresentsFor = 1000000000;
/* The time that a process that draws into windows has until its first present. */
static const long long kFirstPresentWithin = 100000000;
/* A thread that presents calls look() at one of this many flushes. */
enum { kLookEvery = 16 };

static long long coarse_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The time of the process's first look() while it drew into a window or a pbuffer; 0: none yet. */
static _Atomic long long first_surface_ns;

/* Whether this thread presents nothing, so that its calls end batches.
 *
 *                ┌── no present for kPresentsFor ──▶ off screen
 *   presents ────┤                                     │
 *      ▲         └─────────────── a present ◀──────────┘
 *   A thread that has presented nothing yet is off screen immediately if it has no surface, and otherwise
 *   kFirstPresentWithin after the process's first look(). */
__attribute__((noinline)) static int look(void) {
  if (drawing.off_screen && !drawing.presented) return 1;
  drawing.skip = kLookEvery - 1;
  if (drawing.context == NULL) return 0;
  const long long now = coarse_ns();
  if (drawing.presented) {
    drawing.presented = drawing.off_screen = 0;
    drawing.quiet_since_ns = now;
    return 0;
  }
  if (drawing.quiet_since_ns != 0) {
    drawing.off_screen = now - drawing.quiet_since_ns >= kPresentsFor;
  } else if (drawing.surface == 0) {
    drawing.off_screen = 1;
  } else {
    long long first = 0;
    if (atomic_compare_exchange_strong(&first_surface_ns, &first, now)) first = now;
    drawing.off_screen = now - first >= kFirstPresentWithin;
  }
  if (drawing.off_screen) drawing.skip = 0; /* every call counts now */
  return drawing.off_screen;
}

__attribute__((noinline)) static int begin_flush(int hook, const void* frame) {
  if (drawing.single) {
    drawing.skip = 0;
    return begin_present(hook, drawing.surface, drawing.getter, kPart, frame);
  }
  return look() ? begin_batch_call(hook, WEIR_GL_ENDS, frame) : -1;
}

/* Negative: the driver's function is called without the shim. */
static inline int begin_call(int hook, const void* frame) {
  if (hook == k_glFlush || hook == k_glFinish)
    return __builtin_expect(--drawing.skip >= 0, 1) ? -1 : begin_flush(hook, frame);
  if (!look()) return -1;
  const int dispatches = hook == k_glDispatchCompute || hook == k_glDispatchComputeIndirect;
  return begin_batch_call(hook, dispatches ? WEIR_GL_DISPATCH : WEIR_GL_ENDS, frame);
}

/* -- GL's functions ---------------------------------------------------------------------------------------------- */

#define WEIR_NONE_VOID
#define WEIR_NONE_POINTER NULL
#define WEIR_NONE_STATUS 0x911Du /* GL_WAIT_FAILED */
#define WEIR_RUN_VOID(call, end) \
  call;                          \
  end;
#define WEIR_RUN_POINTER(call, end) \
  void* const answer = call;        \
  end;                              \
  return answer;
#define WEIR_RUN_STATUS(call, end) \
  const unsigned answer = call;    \
  end;                             \
  return answer;

#define WEIR_BODY(name, result, parameters, arguments, when, found)                          \
  {                                                                                          \
    typedef WEIR_TYPE_##result(*function) parameters;                                        \
    const function real = (function)(void*)(found);                                          \
    if (__builtin_expect(real == NULL, 0)) return WEIR_NONE_##result;                        \
    const int depth = (when) ? begin_call(k_##name, WEIR_FRAME) : -1;                        \
    WEIR_RUN_##result(real arguments, if (__builtin_expect(depth >= 0, 0)) return_to(depth)) \
  }
#define WEIR_BOUND(i, name, result, parameters, arguments, when)     \
  static WEIR_TYPE_##result bound_##name##_##i parameters WEIR_BODY( \
      name, result, parameters, arguments, when,                     \
      atomic_load_explicit(&bound_functions[k_##name][i], memory_order_relaxed))
#define WEIR_ADDRESS(i, name) (weir_gl_proc)(void*) bound_##name##_##i

#define WEIR_CALL(name, result, parameters, arguments, when)                                                          \
  WEIR_EXPORT WEIR_TYPE_##result name parameters WEIR_BODY(name, result, parameters, arguments, when,                 \
                                                           linked_gl_function(k_##name, __builtin_return_address(0))) \
      WEIR_BOUND(0, name, result, parameters, arguments, when) WEIR_BOUND(                                            \
          1, name, result, parameters, arguments, when) WEIR_BOUND(2, name, result, parameters, arguments, when)      \
          WEIR_BOUND(3, name, result, parameters, arguments, when)                                                    \
              WEIR_BOUND(4, name, result, parameters, arguments, when)                                                \
                  WEIR_BOUND(5, name, result, parameters, arguments, when)                                            \
                      const weir_gl_proc bound_to_##name[kBound] = {WEIR_ADDRESS(0, name), WEIR_ADDRESS(1, name),     \
                                                                    WEIR_ADDRESS(2, name), WEIR_ADDRESS(3, name),     \
                                                                    WEIR_ADDRESS(4, name), WEIR_ADDRESS(5, name)};
WEIR_GL_CALLS(WEIR_CALL)
#undef WEIR_CALL

/* -- Functions of the window systems ----------------------------------------------------------------------------- */

static int begin_wait(int hook, const void* frame) {
  return look() ? begin_batch_call(hook, WEIR_GL_ENDS, frame) : enter(hook, frame);
}

WEIR_EXPORT void glXWaitGL(void) {
  const int depth = begin_wait(kGlxWaitGl, WEIR_FRAME);
  if (depth < 0) return;
  const weir_gl_proc real = real_function(kGlxWaitGl);
  if (real != NULL) real();
  return_to(depth);
}

static unsigned wait_egl(int hook, const void* frame) {
  const int depth = begin_wait(hook, frame);
  if (depth < 0) return 0;
  unsigned (*const real)(void) = (unsigned (*)(void))(void*)real_function(hook);
  const unsigned done = real != NULL ? real() : 0;
  return_to(depth);
  return done;
}
WEIR_EXPORT unsigned eglWaitGL(void) { return wait_egl(kEglWaitGl, WEIR_FRAME); }
WEIR_EXPORT unsigned eglWaitClient(void) { return wait_egl(kEglWaitClient, WEIR_FRAME); }

static void* create_sync(int hook, void* display, unsigned type, const void* attributes, const void* frame) {
  const int depth = begin_wait(hook, frame);
  if (depth < 0) return NULL;
  typedef void* (*function)(void*, unsigned, const void*);
  const function real = (function)(void*)real_function(hook);
  void* sync = real != NULL ? real(display, type, attributes) : NULL;
  return_to(depth);
  return sync;
}
WEIR_EXPORT void* eglCreateSync(void* display, unsigned type, const intptr_t* attributes) {
  return create_sync(kEglCreateSync, display, type, attributes, WEIR_FRAME);
}
WEIR_EXPORT void* eglCreateSyncKHR(void* display, unsigned type, const int* attributes) {
  return create_sync(kEglCreateSyncKhr, display, type, attributes, WEIR_FRAME);
}
WEIR_EXPORT void* eglCreateSync64KHR(void* display, unsigned type, const intptr_t* attributes) {
  return create_sync(kEglCreateSync64Khr, display, type, attributes, WEIR_FRAME);
}

static int client_wait(int hook, void* display, void* sync, int flags, uint64_t timeout, const void* frame) {
  const int depth = begin_wait(hook, frame);
  if (depth < 0) return 0;
  typedef int (*function)(void*, void*, int, uint64_t);
  const function real = (function)(void*)real_function(hook);
  const int status = real != NULL ? real(display, sync, flags, timeout) : 0;
  return_to(depth);
  return status;
}
WEIR_EXPORT int eglClientWaitSync(void* display, void* sync, int flags, uint64_t timeout) {
  return client_wait(kEglClientWaitSync, display, sync, flags, timeout, WEIR_FRAME);
}
WEIR_EXPORT int eglClientWaitSyncKHR(void* display, void* sync, int flags, uint64_t timeout) {
  return client_wait(kEglClientWaitSyncKhr, display, sync, flags, timeout, WEIR_FRAME);
}

/* A context that is left is flushed, so its work goes to the device. */
void leave_context(int hook, const void* next, const void* frame) {
  if (drawing.context == NULL || drawing.context == next || !look()) return;
  const int depth = begin_batch_call(hook, WEIR_GL_LEAVES, frame);
  if (depth >= 0) return_to(depth);
}
