/* SPDX-License-Identifier: Apache-2.0
 * Inside libweir-gl-preload.so, the stub that LD_PRELOAD brings into every program. All of this is hidden; preload.map
 * lists what isn't.
 *   preload_lookup.c   whom a name leads to: dlsym, and the driver's own functions
 *   preload_present.c  what is around a present: calls in progress, the shim proper
 *   preload_single.c   MakeCurrent, glFlush, glFinish
 *   preload.c          the other presents, GetProcAddress, and the table of names */
#ifndef WEIR_SHIM_GL_PRELOAD_H
#define WEIR_SHIM_GL_PRELOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "shim/gl/hooks.h"

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
  kGlFlush, /* from here on GL itself; before, the window systems */
  kGlFinish,
  kHooks,
};

typedef struct hook_entry {
  const char* name;
  weir_gl_proc ours;
} hook_entry;
WEIR_HIDDEN extern const hook_entry kTable[kHooks];

/* What we stand in for, by hook, in the order in which it was found; each entry is written once. Mostly the driver's
 * function and nothing else. But a program may present through a library that wraps the driver's presents (an overlay,
 * a recorder) and finds them by way of us: then the first is the wrapper's, and a call from within goes to the next. */
enum { kReals = 4 };
WEIR_HIDDEN extern _Atomic(weir_gl_proc) real_functions[kHooks][kReals];

typedef void* (*dlsym_function)(void* handle, const char* name);
/* libc's, for our own questions. */
WEIR_HIDDEN dlsym_function real_dlsym(void);

/* Its number, or -1. */
WEIR_HIDDEN int hook_named(const char* name);
WEIR_HIDDEN void remember(int hook, weir_gl_proc found);
/* What to call for a function of the window systems; for GL's own, which several libraries have, see glFlush. */
WEIR_HIDDEN weir_gl_proc real_function(int hook);
/* A function of the window system that we call but don't answer for. */
WEIR_HIDDEN weir_gl_proc other_function(_Atomic(weir_gl_proc)* known, int getter, const char* name);
/* What the library that contains `caller` would find by itself: also if the program opened it privately. */
WEIR_HIDDEN void* from_callers_library(const void* caller, const char* name);
/* In the library of another function of the same window system that we know already. */
WEIR_HIDDEN void* from_known_library(const char* name);
/* Ours for what the driver has: `theirs` is not NULL. */
WEIR_HIDDEN weir_gl_proc answer_for(int hook, weir_gl_proc theirs);

/* -- Presents ---------------------------------------------------------------------------------------------------- */

/* Depth before the call, for return_to(); negative: it would come back to us for ever. */
WEIR_HIDDEN int enter(int hook, const void* frame);
WEIR_HIDDEN void return_to(int depth);
/* Calls of `hook` in progress, without the innermost one. */
WEIR_HIDDEN int outer_calls(int hook);
#define WEIR_FRAME __builtin_frame_address(0)

enum extent { kWhole, kPart };
/* enter(), and the shim's part of it. */
WEIR_HIDDEN int begin_present(int hook, unsigned long long surface, int getter, enum extent extent, const void* frame);
WEIR_HIDDEN void end_of_frame(int hook, weir_gl_proc real);

/* NULL: stay out of the way. */
WEIR_HIDDEN const weir_gl_hooks* shim(void);
/* In the shim the thread can't be cancelled: it waits in places where a cancellation would end the process. */
typedef struct host_state {
  int error_number;
  int cancel_state;
} host_state;
WEIR_HIDDEN host_state into_shim(void);
WEIR_HIDDEN void out_of_shim(host_state host);

/* What this thread draws into, as its last MakeCurrent said. */
typedef struct drawing_state {
  unsigned long long surface;
  const void* context;
  int context_is_single; /* the context's own buffers, before anything was seen */
  int getter;
  int single;                         /* single-buffered, and nothing was swapped: glFlush and glFinish end a frame */
  unsigned long long swapped;         /* surface of the last swap */
  unsigned long long partial_surface; /* and of the last part of a frame, and when that was shown */
  long long partial_ns;
} drawing_state;
WEIR_HIDDEN extern __thread drawing_state drawing;

#endif
