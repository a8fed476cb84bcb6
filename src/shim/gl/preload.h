/* SPDX-License-Identifier: Apache-2.0
 * Inside libweir-gl-preload.so, the stub that LD_PRELOAD brings into every program. All of this is hidden; preload.map
 * lists what isn't.
 *   preload_calls.h    the list of GL's own functions
 *   preload_lookup.c   the functions behind a name: dlsym, and the driver's own functions
 *   preload_present.c  the work around a present: calls in progress, opening the shim
 *   preload_single.c   MakeCurrent, and frames that end with glFlush or glFinish
 *   preload_batch.c    calls that end batches of a thread that presents nothing
 *   preload.c          the other presents, GetProcAddress, and the table of names */
#ifndef WEIR_SHIM_GL_PRELOAD_H
#define WEIR_SHIM_GL_PRELOAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/gl/hooks.h"
#include "shim/gl/preload_calls.h"

#define WEIR_EXPORT __attribute__((visibility("default")))
#define WEIR_HIDDEN __attribute__((visibility("hidden")))

/* -- Names ------------------------------------------------------------------------------------------------------- */

enum hook {
  kGlxSwapBuffers,
  kGlxSwapBuffersMsc,
  kGlxCopySubBuffer,
  kGlxMakeCurrent,
  kGlxMakeContextCurrent,
  kGlxGetProcAddress,
  kGlxGetProcAddressArb,
  kEglSwapBuffers,
  kEglSwapBuffersWithDamageKhr,
  kEglSwapBuffersWithDamageExt,
  kEglPostSubBuffer,
  kEglMakeCurrent,
  kEglGetProcAddress,
  kGlxWaitGl,
  kEglWaitGl,
  kEglWaitClient,
  kEglCreateSync,
  kEglCreateSyncKhr,
  kEglCreateSync64Khr,
  kEglClientWaitSync,
  kEglClientWaitSyncKhr,
  kGl, /* from here on GL itself; before, the window systems */
#define WEIR_CALL(name, ...) k_##name,
  kBeforeGl = kGl - 1,
  WEIR_GL_CALLS(WEIR_CALL)
#undef WEIR_CALL
      kHooks,
};

/* GL's functions exist in several libraries at once (libGL, libOpenGL, libGLESv2, off-screen renderers), and a program
 * may use more than one of them. Each function that a lookup finds is therefore answered by one of kBound functions of
 * the stub, which calls exactly that one. */
enum { kBound = 6 };
typedef struct hook_entry {
  const char* name;
  weir_gl_proc ours;
  const weir_gl_proc* bound_to; /* of GL's functions: kBound functions, each for one of `bound_functions` */
} hook_entry;
WEIR_HIDDEN extern _Atomic(weir_gl_proc) bound_functions[kHooks][kBound];
WEIR_HIDDEN extern const hook_entry kTable[kHooks];

/* The functions behind each hook, in the order in which they were found. Each entry is written once. Usually there is
 * one entry, the driver's function. But a program may present through a library that wraps the driver's presents (an
 * overlay, a recorder) and finds them through the stub. Then the first entry is the wrapper's, and a call from within
 * the wrapper goes to the next entry. */
enum { kReals = 4 };
WEIR_HIDDEN extern _Atomic(weir_gl_proc) real_functions[kHooks][kReals];

typedef void* (*dlsym_function)(void* handle, const char* name);
/* libc's dlsym, for the stub's own lookups. */
WEIR_HIDDEN dlsym_function real_dlsym(void);

/* The hook with this name, or -1. */
WEIR_HIDDEN int hook_named(const char* name);
/* Adds `found` to real_functions unless it is there or no entry is left. */
WEIR_HIDDEN void remember(int hook, weir_gl_proc found);
/* The function to call for a hook of the window systems. */
WEIR_HIDDEN weir_gl_proc real_function(int hook);
/* The function that a program linked with a function of GL would have called: the next one in the order of libraries,
 * or the one that the calling library finds. */
WEIR_HIDDEN weir_gl_proc gl_function(int hook, const void* caller);
static inline weir_gl_proc linked_gl_function(int hook, const void* caller) {
  const weir_gl_proc real = atomic_load_explicit(&real_functions[hook][0], memory_order_acquire);
  return __builtin_expect(real != NULL, 1) ? real : gl_function(hook, caller);
}
/* A function of the window system that the stub calls but does not hook. */
WEIR_HIDDEN weir_gl_proc other_function(_Atomic(weir_gl_proc)* known, int getter, const char* name);
/* The function that the library that contains `caller` finds by itself, also if the program opened that library
 * privately. */
WEIR_HIDDEN void* from_callers_library(const void* caller, const char* name);
/* Searches the libraries of the known functions of the same window system. */
WEIR_HIDDEN void* from_known_library(const char* name);
/* The stub's function that stands for `theirs`, which is not NULL. */
WEIR_HIDDEN weir_gl_proc answer_for(int hook, weir_gl_proc theirs);

/* -- Presents ---------------------------------------------------------------------------------------------------- */

/* Records a call in progress. Returns the depth before the call, for return_to(). Negative: the call must not be made,
 * because it would return to the stub endlessly. */
WEIR_HIDDEN int enter(int hook, const void* frame);
WEIR_HIDDEN void return_to(int depth);
/* The number of calls of `hook` in progress, without the innermost call. */
WEIR_HIDDEN int outer_calls(int hook);
#define WEIR_FRAME __builtin_frame_address(0)

enum extent { kWhole, kPart };
/* Calls enter(), and the shim for a present that is not a part of another call. */
WEIR_HIDDEN int begin_present(int hook, unsigned long long surface, int getter, enum extent extent, const void* frame);

/* -- Batches (docs/off-screen.md) ---------------------------------------------------------------------------------- */

/* Calls enter(), and the shim for a call that may end a batch. */
WEIR_HIDDEN int begin_batch_call(int hook, weir_gl_call what, const void* frame);
/* Called before another context becomes current. */
WEIR_HIDDEN void leave_context(int hook, const void* next, const void* frame);

/* The shim's functions; NULL: the program runs without the shim. */
WEIR_HIDDEN const weir_gl_hooks* shim(void);
/* The thread's errno and cancellation state while it runs code of the shim. A thread cannot be cancelled there, because
 * the shim waits in places where a cancellation would end the process. */
typedef struct host_state {
  int error_number;
  int cancel_state;
} host_state;
WEIR_HIDDEN host_state into_shim(void);
WEIR_HIDDEN void out_of_shim(host_state host);

/* What this thread draws into, according to its last MakeCurrent. */
typedef struct drawing_state {
  int skip;                 /* the number of next flushes that need no look() */
  int presented;            /* since the last look() */
  int off_screen;           /* the thread presents nothing: its calls end batches */
  long long quiet_since_ns; /* the last look() that found a present; 0: the thread has presented nothing yet */
  unsigned long long surface;
  const void* context;
  int context_is_single; /* the context is single-buffered by its configuration */
  int getter;
  int single;                         /* single-buffered, and not swapped: glFlush and glFinish end a frame */
  unsigned long long swapped;         /* surface of the last swap */
  unsigned long long partial_surface; /* surface of the last part of a frame, and the time when it was shown */
  long long partial_ns;
} drawing_state;
WEIR_HIDDEN extern __thread drawing_state drawing;

/* -- Exported functions -------------------------------------------------------------------------------------------- */

/* In preload_single.c and preload_batch.c. */
WEIR_EXPORT int glXMakeCurrent(void* display, unsigned long drawable, void* context);
WEIR_EXPORT int glXMakeContextCurrent(void* display, unsigned long draw, unsigned long read, void* context);
WEIR_EXPORT unsigned eglMakeCurrent(void* display, void* draw, void* read, void* context);
WEIR_EXPORT void glXWaitGL(void);
WEIR_EXPORT unsigned eglWaitGL(void);
WEIR_EXPORT unsigned eglWaitClient(void);
WEIR_EXPORT void* eglCreateSync(void* display, unsigned type, const intptr_t* attributes);
WEIR_EXPORT void* eglCreateSyncKHR(void* display, unsigned type, const int* attributes);
WEIR_EXPORT void* eglCreateSync64KHR(void* display, unsigned type, const intptr_t* attributes);
WEIR_EXPORT int eglClientWaitSync(void* display, void* sync, int flags, uint64_t timeout);
WEIR_EXPORT int eglClientWaitSyncKHR(void* display, void* sync, int flags, uint64_t timeout);
#define WEIR_CALL(name, result, parameters, arguments, when) \
  WEIR_EXPORT WEIR_TYPE_##result name parameters;            \
  WEIR_HIDDEN extern const weir_gl_proc bound_to_##name[kBound];
WEIR_GL_CALLS(WEIR_CALL)
#undef WEIR_CALL

#endif
