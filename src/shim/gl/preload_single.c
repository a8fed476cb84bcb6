/* SPDX-License-Identifier: Apache-2.0
 * What a thread draws into, according to MakeCurrent. Frames of programs that draw into single-buffered windows end
 * with glFlush or glFinish (preload_batch.c calls begin_present for these). Whether the window is single-buffered is
 * queried in MakeCurrent, because a query at each flush would cost more and, with EGL, could clear an error of the
 * program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "shim/gl/preload.h"

typedef int (*glx_query_context)(void*, void*, int, int*);
typedef void** (*glx_get_fb_configs)(void*, int, int*);
typedef int (*glx_get_fb_config_attrib)(void*, void*, int, int*);
typedef unsigned (*egl_query_context)(void*, void*, int, int*);
typedef int (*egl_get_error)(void);

static void free_of_x(void* list) {
  int (*x_free)(void*) = NULL;
  *(void**)&x_free = real_dlsym()(RTLD_DEFAULT, "XFree");
  dlerror();
  if (x_free != NULL)
    x_free(list);
  else
    free(list); /* XFree does the same; the program has opened libX11 privately */
}

/* The last few configurations of this thread. Reading the list, which has hundreds of entries, takes tens of
 * microseconds, and some programs draw into several windows in each frame. */
enum { kConfigsKept = 4 };
static __thread struct {
  const void* display;
  int id;
  int is_single;
} configs_kept[kConfigsKept];
static __thread unsigned configs_met;

/* Whether the context's configuration is single-buffered. The client library of GLX knows the configuration without a
 * request to the server. Mesa names it by its visual if the context was made from one. */
static int glx_is_single(void* display, void* context) {
  enum { kVisualId = 0x800B, kScreen = 0x800C, kFbConfigId = 0x8013, kDoubleBuffer = 5 };
  static _Atomic(weir_gl_proc) query_known, list_known, attrib_known;
  const glx_query_context query =
      (glx_query_context)(void*)other_function(&query_known, kGlxGetProcAddress, "glXQueryContext");
  const glx_get_fb_configs list =
      (glx_get_fb_configs)(void*)other_function(&list_known, kGlxGetProcAddress, "glXGetFBConfigs");
  const glx_get_fb_config_attrib attrib =
      (glx_get_fb_config_attrib)(void*)other_function(&attrib_known, kGlxGetProcAddress, "glXGetFBConfigAttrib");
  if (query == NULL || list == NULL || attrib == NULL) return 0;
  int key = kFbConfigId, id = 0, screen = 0;
  if (query(display, context, key, &id) != 0 || id <= 0) {
    key = kVisualId;
    if (query(display, context, key, &id) != 0 || id <= 0) return 0; /* made without a configuration */
  }
  for (int i = 0; i < kConfigsKept; ++i)
    if (configs_kept[i].display == display && configs_kept[i].id == id) return configs_kept[i].is_single;
  int count = 0, is_double = 1;
  void** configs = query(display, context, kScreen, &screen) == 0 ? list(display, screen, &count) : NULL;
  if (configs == NULL) return 0;
  for (int i = 0; i < count; ++i) {
    int its_id = 0;
    if (attrib(display, configs[i], key, &its_id) != 0 || its_id != id) continue;
    if (attrib(display, configs[i], kDoubleBuffer, &is_double) != 0) is_double = 1;
    break;
  }
  free_of_x(configs);
  const unsigned place = configs_met++ % kConfigsKept;
  configs_kept[place].display = display;
  configs_kept[place].id = id;
  configs_kept[place].is_single = !is_double;
  return !is_double;
}

/* Whether EGL renders into a single buffer, which may differ from what the program requested. Called after a successful
 * eglMakeCurrent, so that a query cannot clear an error of the program. */
static int egl_is_single(void* display, void* context) {
  enum { kRenderBuffer = 0x3086, kSingleBuffer = 0x3085 };
  static _Atomic(weir_gl_proc) query_known, error_known;
  const egl_query_context query =
      (egl_query_context)(void*)other_function(&query_known, kEglGetProcAddress, "eglQueryContext");
  int buffer = 0;
  if (query == NULL) return 0;
  if (query(display, context, kRenderBuffer, &buffer)) return buffer == kSingleBuffer;
  const egl_get_error error = (egl_get_error)(void*)other_function(&error_known, kEglGetProcAddress, "eglGetError");
  if (error != NULL) error(); /* clears the error of this query */
  return 0;
}

static void now_drawing(void* display, unsigned long long surface, void* context, int getter) {
  if (shim() == NULL) return;
  const host_state host = into_shim();
  /* GLX: the kind of a context that stays current does not change. EGL: the buffer also depends on the surface. */
  if (context == NULL || surface == 0)
    drawing.context_is_single = 0;
  else if (getter == kEglGetProcAddress)
    drawing.context_is_single = egl_is_single(display, context);
  else if (drawing.context != context || drawing.getter != getter || drawing.surface == 0)
    drawing.context_is_single = glx_is_single(display, context);
  drawing.context = context;
  drawing.surface = surface;
  drawing.getter = getter;
  drawing.single = drawing.context_is_single && surface != drawing.swapped;
  drawing.skip = 0;
  out_of_shim(host);
}

WEIR_EXPORT int glXMakeCurrent(void* display, unsigned long drawable, void* context) {
  leave_context(kGlxMakeCurrent, context, WEIR_FRAME);
  const int depth = enter(kGlxMakeCurrent, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef int (*function)(void*, unsigned long, void*);
  const function real = (function)(void*)real_function(kGlxMakeCurrent);
  const int made = real != NULL && real(display, drawable, context);
  return_to(depth);
  if (made) now_drawing(display, drawable, context, kGlxGetProcAddress);
  return made;
}

WEIR_EXPORT int glXMakeContextCurrent(void* display, unsigned long draw, unsigned long read, void* context) {
  leave_context(kGlxMakeContextCurrent, context, WEIR_FRAME);
  const int depth = enter(kGlxMakeContextCurrent, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef int (*function)(void*, unsigned long, unsigned long, void*);
  const function real = (function)(void*)real_function(kGlxMakeContextCurrent);
  const int made = real != NULL && real(display, draw, read, context);
  return_to(depth);
  if (made) now_drawing(display, draw, context, kGlxGetProcAddress);
  return made;
}

WEIR_EXPORT unsigned eglMakeCurrent(void* display, void* draw, void* read, void* context) {
  leave_context(kEglMakeCurrent, context, WEIR_FRAME);
  const int depth = enter(kEglMakeCurrent, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef unsigned (*function)(void*, void*, void*, void*);
  const function real = (function)(void*)real_function(kEglMakeCurrent);
  const unsigned made = real != NULL ? real(display, draw, read, context) : 0;
  return_to(depth);
  if (made) now_drawing(display, (uintptr_t)draw, context, kEglGetProcAddress);
  return made;
}
