/* SPDX-License-Identifier: Apache-2.0
 * The stub that LD_PRELOAD brings into every program: it answers for the names in kTable and for nothing else, and
 * does nothing else for a program without GL. Presents are reached in three ways, all caught: linked, through dlsym on
 * a handle, through GetProcAddress. The shim proper is opened with RTLD_LOCAL, and only in programs that use GL:
 * /bin/ls carries only this. What it owes its host is docs/protocol/obligations.md. */
#define _GNU_SOURCE
#include "shim/gl/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

/* -- Exported presents. Window system types are kept opaque: nothing here needs their headers. -------------------- */

WEIR_EXPORT void glXSwapBuffers(void* display, unsigned long drawable) {
  const int depth = begin_present(kGlxSwapBuffers, drawable, kGlxGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return;
  void (*const real)(void*, unsigned long) = (void (*)(void*, unsigned long))(void*)real_function(kGlxSwapBuffers);
  if (real != NULL) real(display, drawable);
  return_to(depth);
}

WEIR_EXPORT int64_t glXSwapBuffersMscOML(void* display, unsigned long drawable, int64_t target, int64_t divisor,
                                         int64_t rest) {
  const int depth = begin_present(kGlxSwapBuffersMsc, drawable, kGlxGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return -1;
  typedef int64_t (*function)(void*, unsigned long, int64_t, int64_t, int64_t);
  const function real = (function)(void*)real_function(kGlxSwapBuffersMsc);
  const int64_t result = real != NULL ? real(display, drawable, target, divisor, rest) : -1;
  return_to(depth);
  return result;
}

WEIR_EXPORT void glXCopySubBufferMESA(void* display, unsigned long drawable, int x, int y, int width, int height) {
  const int depth = begin_present(kGlxCopySubBuffer, drawable, kGlxGetProcAddress, kPart, WEIR_FRAME);
  if (depth < 0) return;
  typedef void (*function)(void*, unsigned long, int, int, int, int);
  const function real = (function)(void*)real_function(kGlxCopySubBuffer);
  if (real != NULL) real(display, drawable, x, y, width, height);
  return_to(depth);
}

WEIR_EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  const int depth = begin_present(kEglSwapBuffers, (uintptr_t)surface, kEglGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return 0;
  unsigned (*const real)(void*, void*) = (unsigned (*)(void*, void*))(void*)real_function(kEglSwapBuffers);
  const unsigned result = real != NULL ? real(display, surface) : 0;
  return_to(depth);
  return result;
}

static unsigned swap_with_damage(int hook, void* display, void* surface, const int* rects, int count) {
  const int depth = begin_present(hook, (uintptr_t)surface, kEglGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef unsigned (*function)(void*, void*, const int*, int);
  const function real = (function)(void*)real_function(hook);
  const unsigned result = real != NULL ? real(display, surface, rects, count) : 0;
  return_to(depth);
  return result;
}

WEIR_EXPORT unsigned eglSwapBuffersWithDamageKHR(void* display, void* surface, const int* rects, int count) {
  return swap_with_damage(kEglSwapBuffersWithDamageKhr, display, surface, rects, count);
}

WEIR_EXPORT unsigned eglSwapBuffersWithDamageEXT(void* display, void* surface, const int* rects, int count) {
  return swap_with_damage(kEglSwapBuffersWithDamageExt, display, surface, rects, count);
}

WEIR_EXPORT unsigned eglPostSubBufferNV(void* display, void* surface, int x, int y, int width, int height) {
  const int depth = begin_present(kEglPostSubBuffer, (uintptr_t)surface, kEglGetProcAddress, kPart, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef unsigned (*function)(void*, void*, int, int, int, int);
  const function real = (function)(void*)real_function(kEglPostSubBuffer);
  const unsigned result = real != NULL ? real(display, surface, x, y, width, height) : 0;
  return_to(depth);
  return result;
}

/* -- GetProcAddress ---------------------------------------------------------------------------------------------- */

/* Returns the stub's function only if the driver has the function: a program must not find an extension that the driver
 * lacks. */
static weir_gl_proc get_proc_address(int getter, const char* name) {
  const int depth = enter(getter, WEIR_FRAME);
  if (depth < 0) return NULL;
  const weir_gl_get_proc real = (weir_gl_get_proc)(void*)real_function(getter);
  const weir_gl_proc theirs = real != NULL ? real(name) : NULL;
  return_to(depth);
  const int hook = theirs == NULL ? -1 : hook_named(name);
  if (hook < 0) return theirs;
  shim();
  if (hook >= kGl && theirs == kTable[hook].ours) { /* the loader bound the driver's own reference to the stub */
    const int error_number = errno;
    weir_gl_proc found = NULL;
    *(void**)&found = from_callers_library((void*)real, name);
    dlerror();
    errno = error_number;
    return found != NULL ? answer_for(hook, found) : theirs;
  }
  return answer_for(hook, theirs);
}

WEIR_EXPORT weir_gl_proc glXGetProcAddress(const char* name) { return get_proc_address(kGlxGetProcAddress, name); }
WEIR_EXPORT weir_gl_proc glXGetProcAddressARB(const char* name) {
  return get_proc_address(kGlxGetProcAddressArb, name);
}
WEIR_EXPORT weir_gl_proc eglGetProcAddress(const char* name) { return get_proc_address(kEglGetProcAddress, name); }

const hook_entry kTable[kHooks] = {
    [kGlxSwapBuffers] = {"glXSwapBuffers", (weir_gl_proc)(void*)glXSwapBuffers, NULL},
    [kGlxSwapBuffersMsc] = {"glXSwapBuffersMscOML", (weir_gl_proc)(void*)glXSwapBuffersMscOML, NULL},
    [kGlxCopySubBuffer] = {"glXCopySubBufferMESA", (weir_gl_proc)(void*)glXCopySubBufferMESA, NULL},
    [kGlxMakeCurrent] = {"glXMakeCurrent", (weir_gl_proc)(void*)glXMakeCurrent, NULL},
    [kGlxMakeContextCurrent] = {"glXMakeContextCurrent", (weir_gl_proc)(void*)glXMakeContextCurrent, NULL},
    [kGlxGetProcAddress] = {"glXGetProcAddress", (weir_gl_proc)(void*)glXGetProcAddress, NULL},
    [kGlxGetProcAddressArb] = {"glXGetProcAddressARB", (weir_gl_proc)(void*)glXGetProcAddressARB, NULL},
    [kEglSwapBuffers] = {"eglSwapBuffers", (weir_gl_proc)(void*)eglSwapBuffers, NULL},
    [kEglSwapBuffersWithDamageKhr] = {"eglSwapBuffersWithDamageKHR", (weir_gl_proc)(void*)eglSwapBuffersWithDamageKHR,
                                      NULL},
    [kEglSwapBuffersWithDamageExt] = {"eglSwapBuffersWithDamageEXT", (weir_gl_proc)(void*)eglSwapBuffersWithDamageEXT,
                                      NULL},
    [kEglPostSubBuffer] = {"eglPostSubBufferNV", (weir_gl_proc)(void*)eglPostSubBufferNV, NULL},
    [kEglMakeCurrent] = {"eglMakeCurrent", (weir_gl_proc)(void*)eglMakeCurrent, NULL},
    [kEglGetProcAddress] = {"eglGetProcAddress", (weir_gl_proc)(void*)eglGetProcAddress, NULL},
    [kGlxWaitGl] = {"glXWaitGL", (weir_gl_proc)(void*)glXWaitGL, NULL},
    [kEglWaitGl] = {"eglWaitGL", (weir_gl_proc)(void*)eglWaitGL, NULL},
    [kEglWaitClient] = {"eglWaitClient", (weir_gl_proc)(void*)eglWaitClient, NULL},
    [kEglCreateSync] = {"eglCreateSync", (weir_gl_proc)(void*)eglCreateSync, NULL},
    [kEglCreateSyncKhr] = {"eglCreateSyncKHR", (weir_gl_proc)(void*)eglCreateSyncKHR, NULL},
    [kEglCreateSync64Khr] = {"eglCreateSync64KHR", (weir_gl_proc)(void*)eglCreateSync64KHR, NULL},
    [kEglClientWaitSync] = {"eglClientWaitSync", (weir_gl_proc)(void*)eglClientWaitSync, NULL},
    [kEglClientWaitSyncKhr] = {"eglClientWaitSyncKHR", (weir_gl_proc)(void*)eglClientWaitSyncKHR, NULL},
#define WEIR_CALL(name, ...) [k_##name] = {#name, (weir_gl_proc)(void*)name, bound_to_##name},
    WEIR_GL_CALLS(WEIR_CALL)
#undef WEIR_CALL
};
