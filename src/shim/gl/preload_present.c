/* SPDX-License-Identifier: Apache-2.0
 * The work around a present: calls in progress, opening the shim, which calls count as a frame. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "shim/common/open_shim.h"
#include "shim/gl/preload.h"

/* -- Calls in progress ------------------------------------------------------------------------------------------- */

/* This thread's calls through the stub that have not returned, outermost first. A call may also be left by longjmp. Its
 * frame then lies below the frame of the next caller, and enter() drops it. */
typedef struct call {
  const void* frame;
  int hook;
} call;
enum { kCallsMax = 16 };
static __thread struct {
  call open[kCallsMax];
  int depth;
  int present_depth; /* depth of the outermost present or batch call; 0: none. Presents inside it are parts of it */
  int in_shim;
  int noted;                  /* at_thread_end is registered for this thread */
  const weir_gl_hooks* hooks; /* the hooks that the outermost call has to end; NULL: none */
  int is_batch_call;          /* the outermost call is a batch call, not a present */
  weir_gl_present present;
} calls;

static void settle(void);

void return_to(int depth) {
  if (calls.present_depth > depth) settle();
  calls.depth = depth;
}

int enter(int hook, const void* frame) {
  int depth = calls.depth;
  while (depth > 0 && (uintptr_t)calls.open[depth - 1].frame <= (uintptr_t)frame) --depth;
  if (depth != calls.depth) return_to(depth);
  int same = 0;
  for (int i = 0; i < depth; ++i) same += calls.open[i].hook == hook;
  if (same >= kReals || depth == kCallsMax) return -1;
  calls.open[depth] = (call){frame, hook};
  calls.depth = depth + 1;
  return depth;
}

int outer_calls(int hook) {
  int outer = 0;
  for (int i = 0; i < calls.depth - 1; ++i) outer += calls.open[i].hook == hook;
  return outer;
}

/* -- Opening the shim -------------------------------------------------------------------------------------------- */

host_state into_shim(void) {
  host_state host = {errno, 0};
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &host.cancel_state);
  calls.in_shim = 1;
  return host;
}

void out_of_shim(host_state host) {
  calls.in_shim = 0;
  errno = host.error_number;
  pthread_setcancelstate(host.cancel_state, NULL);
}

static const weir_gl_hooks kNothing = {0};

static const weir_gl_hooks* open_shim(void) {
  const weir_gl_hooks* hooks = weir_open_shim("weir_gl_shim_hooks", WEIR_GL_HOOKS_VERSION, real_dlsym());
  return hooks == NULL ? &kNothing : hooks;
}

/* Two threads that present for the first time at once may both open the shim, which is harmless: both get the same
 * library. */
const weir_gl_hooks* shim(void) {
  static _Atomic(const weir_gl_hooks*) opened;
  const weir_gl_hooks* hooks = atomic_load_explicit(&opened, memory_order_acquire);
  if (hooks == NULL) {
    const host_state host = into_shim();
    hooks = open_shim();
    atomic_store_explicit(&opened, hooks, memory_order_release);
    out_of_shim(host);
  }
  return hooks == &kNothing ? NULL : hooks;
}

/* Opens the shim before main() if the program is linked with GL, while its heap is still small. Memory that dlopen
 * allocates at the first present would lie at the end of the heap, which glmark2's frames grow and trim. That doubled
 * glmark2's calls of brk and took 6 % of its CPU time. */
__attribute__((constructor)) static void prepare_linked_program(void) {
  static const char* const libraries[] = {"libGLX.so.0", "libGL.so.1", "libEGL.so.1"};
  if (getenv("WEIR_ATTACH") == NULL) return;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; ++i) {
    void* handle = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) continue;
    dlclose(handle); /* releases only this reference */
    shim();
    break;
  }
  dlerror(); /* clears the errors of dlopen, which the program must not see */
}

/* -- Presents ---------------------------------------------------------------------------------------------------- */

__thread drawing_state drawing;

/* Parts of a frame are copied rectangles, and flushes of a single-buffered window. Programs show several in a row, so
 * parts that follow within this time belong to the same frame. More than 250 frames a second cannot be seen. */
static const long long kFrameOfParts = 4000000;

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void settle(void) {
  const weir_gl_hooks* hooks = calls.hooks;
  if (hooks != NULL) {
    const host_state host = into_shim();
    calls.hooks = NULL;
    if (calls.is_batch_call) {
      hooks->after_batch_call(&calls.present);
    } else {
      hooks->after_present(&calls.present);
      if (drawing.partial_ns < 0) drawing.partial_ns = now_ns();
    }
    out_of_shim(host);
  }
  calls.present_depth = 0;
}

/* Settles the present of a thread that was cancelled in the driver's present. */
static void at_thread_end(void* unused) {
  (void)unused;
  return_to(0);
}

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static int thread_key_made;
static void make_thread_key(void) { thread_key_made = pthread_key_create(&thread_key, at_thread_end) == 0; }

static void note_thread(void) {
  calls.noted = 1;
  pthread_once(&thread_key_once, make_thread_key);
  if (thread_key_made) pthread_setspecific(thread_key, &calls);
}

int begin_present(int hook, unsigned long long surface, int getter, enum extent extent, const void* frame) {
  const int depth = enter(hook, frame);
  if (depth < 0 || calls.present_depth != 0 || calls.in_shim) return depth;
  calls.present_depth = calls.depth;
  if (extent == kWhole) {
    drawing.swapped = surface;
    drawing.single = 0;
  }
  const weir_gl_hooks* hooks = shim();
  if (hooks == NULL) return depth;
  if (extent == kPart) {
    if (drawing.partial_surface == surface && now_ns() - drawing.partial_ns < kFrameOfParts) return depth;
    drawing.partial_surface = surface;
    drawing.partial_ns = -1; /* settle() sets it to the time of the end */
  }
  drawing.presented = 1;
  const host_state host = into_shim();
  if (!calls.noted) note_thread();
  const weir_gl_place place = {drawing.context, (weir_gl_get_proc)(void*)real_function(getter)};
  hooks->before_present(&calls.present, surface, place);
  calls.hooks = hooks;
  calls.is_batch_call = 0;
  out_of_shim(host);
  return depth;
}

int begin_batch_call(int hook, weir_gl_call what, const void* frame) {
  const int depth = enter(hook, frame);
  if (depth != 0 || calls.present_depth != 0 || calls.in_shim) return depth; /* within another call, or in the shim */
  const weir_gl_hooks* hooks = shim();
  if (hooks == NULL) return depth;
  calls.present_depth = calls.depth;
  const host_state host = into_shim();
  if (!calls.noted) note_thread();
  const weir_gl_place place = {drawing.context, (weir_gl_get_proc)(void*)real_function(drawing.getter)};
  hooks->before_batch_call(&calls.present, what, place);
  calls.hooks = hooks;
  calls.is_batch_call = 1;
  out_of_shim(host);
  return depth;
}
