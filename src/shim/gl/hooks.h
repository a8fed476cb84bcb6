/* SPDX-License-Identifier: Apache-2.0
 * Between the preloaded stub (C, which exports the hooked names) and the shim (C++, which the stub opens privately once
 * the program uses GL). Both are installed together, and the stub checks the version. */
#ifndef WEIR_SHIM_GL_HOOKS_H
#define WEIR_SHIM_GL_HOOKS_H

#include "shim/common/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
#define WEIR_GL_HOOKS_VERSION 2u

typedef weir_shim_pass weir_gl_present;

typedef void (*weir_gl_proc)(void);
typedef weir_gl_proc (*weir_gl_get_proc)(const char* name);

/* Where a call is made: the thread's current context, which is used as a key, and the driver's own GetProcAddress of
 * the window system in use. */
typedef struct weir_gl_place {
  const void* context;
  weir_gl_get_proc get_proc;
} weir_gl_place;

/* Calls of a program that presents nothing. */
typedef enum weir_gl_call {
  WEIR_GL_ENDS,     /* a flush, a wait or a readback: submits the work that was drawn to the device */
  WEIR_GL_DISPATCH, /* a compute dispatch, which submits nothing; the shim flushes if the call ends a batch */
  WEIR_GL_LEAVES,   /* another context becomes current; the shim flushes if the call ends a batch */
} weir_gl_call;

typedef struct weir_gl_hooks {
  unsigned version;
  /* Around the driver's present. `surface` is the key of the window. Never throw, never fail. */
  void (*before_present)(weir_gl_present* present, unsigned long long surface, weir_gl_place place);
  void (*after_present)(weir_gl_present* present);
  /* Around the driver's function for a call that may end a batch. Never throw, never fail. */
  void (*before_batch_call)(weir_gl_present* present, weir_gl_call call, weir_gl_place place);
  void (*after_batch_call)(weir_gl_present* present);
} weir_gl_hooks;

/* libweir-shim.so exports it. */
const weir_gl_hooks* weir_gl_shim_hooks(void);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
