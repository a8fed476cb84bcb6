/* SPDX-License-Identifier: Apache-2.0
 * Between the preloaded stub (C, exports the names it answers for) and the shim proper (C++, opened privately at the
 * first sign of GL). Neither outlives the other: both are installed together and check the version. */
#ifndef WEIR_SHIM_GL_HOOKS_H
#define WEIR_SHIM_GL_HOOKS_H

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
#define WEIR_GL_HOOKS_VERSION 1u

/* Scratch space of one present, on the caller's stack. */
typedef struct weir_gl_present {
  unsigned long long words[12];
} weir_gl_present;

typedef void (*weir_gl_proc)(void);
typedef weir_gl_proc (*weir_gl_get_proc)(const char* name);

typedef struct weir_gl_hooks {
  unsigned version;
  /* Around the driver's present. `surface` tells windows apart; `get_proc` is the driver's own GetProcAddress of the
   * window system in use. Never throw, never fail. */
  void (*before_present)(weir_gl_present* present, unsigned long long surface, weir_gl_get_proc get_proc);
  void (*after_present)(weir_gl_present* present);
} weir_gl_hooks;

/* The one symbol that libweir-gl.so exports. */
const weir_gl_hooks* weir_gl_shim_hooks(void);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
