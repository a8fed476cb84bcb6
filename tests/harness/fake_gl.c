/* SPDX-License-Identifier: Apache-2.0
 * A driver library for tests and benchmarks of the preloaded stub: presents only count, contexts are numbers. The
 * environment describes what it reports:
 *   WEIR_FAKE_RENDERER     GL_RENDERER; "Fake GPU" when unset
 *   WEIR_FAKE_EGL_DAMAGE   set: eglGetProcAddress returns eglSwapBuffersWithDamageKHR
 *   WEIR_FAKE_EXTENSIONS   set: GetProcAddress returns the other presents that are extensions */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef void (*proc)(void);

static _Atomic unsigned long swaps, flushes, queries, batch_calls;
static void (*_Atomic on_swap)(void);

/* Counts presents; also measures what a present costs without a shim. */
EXPORT unsigned long weir_fake_swaps(void) { return swaps; }
EXPORT unsigned long weir_fake_flushes(void) { return flushes; }
/* Calls at which a program without presents ends its work, but for glFlush and glFinish. */
EXPORT unsigned long weir_fake_batch_calls(void) { return batch_calls; }
/* How often contexts, configurations and errors were queried. */
EXPORT unsigned long weir_fake_queries(void) { return queries; }
EXPORT void weir_fake_swap(void* display, unsigned long drawable) {
  (void)display;
  (void)drawable;
  ++swaps;
}
EXPORT void weir_fake_flush(void) { ++flushes; }
/* Sets what happens inside glXSwapBuffers: a driver may wait, be cancelled, or be left without a return. */
EXPORT void weir_fake_on_swap(void (*then)(void)) { on_swap = then; }

/* -- GLX --------------------------------------------------------------------------------------------------------- */

/* Contexts. The first is made from a visual and reports no configuration, like Mesa's. */
enum { kNone, kSingleByVisual, kDouble, kSingle, kContexts };

EXPORT void glXSwapBuffers(void* display, unsigned long drawable) {
  weir_fake_swap(display, drawable);
  void (*const then)(void) = on_swap;
  if (then != NULL) then();
}

static int64_t swap_msc(void* display, unsigned long drawable, int64_t target, int64_t divisor, int64_t rest) {
  weir_fake_swap(display, drawable);
  return target + divisor + rest;
}
static void copy_sub_buffer(void* display, unsigned long drawable, int x, int y, int width, int height) {
  (void)x, (void)y, (void)width, (void)height;
  weir_fake_swap(display, drawable);
}

EXPORT int glXMakeCurrent(void* display, unsigned long drawable, void* context) {
  (void)display, (void)drawable;
  return (uintptr_t)context < kContexts;
}
EXPORT int glXMakeContextCurrent(void* display, unsigned long draw, unsigned long read, void* context) {
  (void)read;
  return glXMakeCurrent(display, draw, context);
}
enum {
  kGlxDoubleBuffer = 5,
  kGlxVisualId = 0x800B,
  kGlxScreen = 0x800C,
  kGlxFbConfigId = 0x8013,
  kGlxBadAttribute = 2
};

static int attribute_of(uintptr_t config, int attribute, int* value) {
  ++queries;
  switch (attribute) {
    case kGlxFbConfigId: *value = config == kSingleByVisual ? -1 : (int)config; return 0;
    case kGlxVisualId: *value = (int)config + 100; return 0;
    case kGlxDoubleBuffer: *value = config == kDouble; return 0;
    default: return kGlxBadAttribute;
  }
}
EXPORT int glXQueryContext(void* display, void* context, int attribute, int* value) {
  (void)display;
  *value = 0;
  if (attribute == kGlxScreen) return 0;
  return attribute == kGlxDoubleBuffer ? kGlxBadAttribute : attribute_of((uintptr_t)context, attribute, value);
}
EXPORT void** glXGetFBConfigs(void* display, int screen, int* count) {
  (void)display;
  ++queries;
  *count = kContexts - 1;
  void** configs = screen == 0 ? malloc((size_t)*count * sizeof *configs) : NULL;
  for (uintptr_t i = 0; configs != NULL && i < kContexts - 1; ++i) configs[i] = (void*)(i + 1);
  return configs;
}
EXPORT int glXGetFBConfigAttrib(void* display, void* config, int attribute, int* value) {
  (void)display;
  return attribute_of((uintptr_t)config, attribute, value);
}

EXPORT void glXWaitGL(void) { ++batch_calls; }

/* -- EGL --------------------------------------------------------------------------------------------------------- */

static __thread int egl_error = 0x3000; /* EGL_SUCCESS */

EXPORT int eglGetError(void) {
  const int error = egl_error;
  ++queries;
  egl_error = 0x3000;
  return error;
}

EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  weir_fake_swap(display, (unsigned long)(size_t)surface);
  egl_error = 0x3000;
  return 1;
}
static unsigned swap_with_damage(void* display, void* surface, const int* rects, int count) {
  (void)rects;
  weir_fake_swap(display, (unsigned long)(size_t)surface);
  return (unsigned)count;
}
static unsigned post_sub_buffer(void* display, void* surface, int x, int y, int width, int height) {
  weir_fake_swap(display, (unsigned long)(size_t)surface);
  return (unsigned)(x + y + width + height);
}

EXPORT unsigned eglMakeCurrent(void* display, void* draw, void* read, void* context) {
  (void)display, (void)draw, (void)read;
  const unsigned made = (uintptr_t)context < kContexts;
  egl_error = made ? 0x3000 : 0x3006; /* EGL_BAD_CONTEXT */
  return made;
}
EXPORT unsigned eglWaitClient(void) {
  ++batch_calls;
  return 1;
}
EXPORT void* eglCreateSync(void* display, unsigned type, const intptr_t* attributes) {
  (void)display, (void)attributes;
  ++batch_calls;
  return (void*)(uintptr_t)type;
}
EXPORT int eglClientWaitSync(void* display, void* sync, int flags, uint64_t timeout) {
  (void)display, (void)sync, (void)timeout;
  ++batch_calls;
  return flags;
}
EXPORT unsigned eglQueryContext(void* display, void* context, int attribute, int* value) {
  (void)display;
  ++queries;
  egl_error = attribute == 0x3086 ? 0x3000 : 0x3004; /* EGL_RENDER_BUFFER; EGL_BAD_ATTRIBUTE */
  if (attribute != 0x3086) return 0;
  *value = (uintptr_t)context == kDouble ? 0x3084 : 0x3085; /* EGL_BACK_BUFFER, EGL_SINGLE_BUFFER */
  return 1;
}

/* -- GL ---------------------------------------------------------------------------------------------------------- */

EXPORT void glFlush(void) { weir_fake_flush(); }
EXPORT void glFinish(void) { weir_fake_flush(); }

/* Also measures what a readback costs without a shim. */
EXPORT void weir_fake_read(int x, int y, int width, int height, unsigned format, unsigned type, void* pixels) {
  (void)width, (void)height, (void)format, (void)type;
  *(int*)pixels = x + y;
  ++batch_calls;
}
EXPORT void glReadPixels(int x, int y, int width, int height, unsigned format, unsigned type, void* pixels) {
  weir_fake_read(x, y, width, height, format, type, pixels);
}
EXPORT void glGetTexImage(unsigned target, int level, unsigned format, unsigned type, void* pixels) {
  (void)target, (void)level, (void)format;
  *(unsigned*)pixels = type;
  ++batch_calls;
}
EXPORT void glGetBufferSubData(unsigned target, ptrdiff_t offset, ptrdiff_t size, void* data) {
  (void)target, (void)offset;
  *(ptrdiff_t*)data = size;
  ++batch_calls;
}
EXPORT void* glMapBuffer(unsigned target, unsigned access) {
  (void)access;
  ++batch_calls;
  return (void*)(uintptr_t)target;
}
EXPORT void* glMapBufferRange(unsigned target, ptrdiff_t offset, ptrdiff_t length, unsigned access) {
  (void)access;
  ++batch_calls;
  return (void*)((uintptr_t)target + (uintptr_t)offset + (uintptr_t)length);
}
EXPORT void* glFenceSync(unsigned condition, unsigned flags) {
  ++batch_calls;
  return (void*)(uintptr_t)(condition + flags);
}
EXPORT unsigned glClientWaitSync(void* sync, unsigned flags, uint64_t timeout) {
  ++batch_calls;
  return (unsigned)((uintptr_t)sync + flags + timeout);
}
EXPORT void glGetQueryObjectuiv(unsigned query, unsigned what, unsigned* value) {
  (void)what;
  *value = query;
  ++batch_calls;
}
EXPORT void glDispatchCompute(unsigned x, unsigned y, unsigned z) {
  (void)x, (void)y, (void)z;
  ++batch_calls;
}

EXPORT const unsigned char* glGetString(unsigned name) {
  const char* renderer = getenv("WEIR_FAKE_RENDERER");
  (void)name;
  return (const unsigned char*)(renderer != NULL ? renderer : "Fake GPU");
}

/* -- GetProcAddress ---------------------------------------------------------------------------------------------- */

typedef struct named {
  const char* name;
  proc function;
} named;

static proc find(const named* all, size_t count, const char* name) {
  for (size_t i = 0; i < count; ++i)
    if (strcmp(all[i].name, name) == 0) return all[i].function;
  return NULL;
}
#define FIND(all, name) find(all, sizeof(all) / sizeof *(all), name)
#define NAMED(function) \
  { #function, (proc)(void*)function }

EXPORT proc glXGetProcAddress(const unsigned char* name) {
  static const named core[] = {
      NAMED(glXSwapBuffers),  NAMED(glXGetProcAddress), NAMED(glXMakeCurrent),       NAMED(glXMakeContextCurrent),
      NAMED(glXQueryContext), NAMED(glXGetFBConfigs),   NAMED(glXGetFBConfigAttrib), NAMED(glGetString),
      NAMED(glFlush),         NAMED(glFinish),          NAMED(glReadPixels)};
  static const named extensions[] = {{"glXSwapBuffersMscOML", (proc)(void*)swap_msc},
                                     {"glXCopySubBufferMESA", (proc)(void*)copy_sub_buffer}};
  const proc found = FIND(core, (const char*)name);
  if (found != NULL || getenv("WEIR_FAKE_EXTENSIONS") == NULL) return found;
  return FIND(extensions, (const char*)name);
}
EXPORT proc glXGetProcAddressARB(const unsigned char* name) { return glXGetProcAddress(name); }

/* As before EGL 1.5, this does not return all of EGL's own functions. */
EXPORT proc eglGetProcAddress(const char* name) {
  static const named core[] = {NAMED(eglSwapBuffers), NAMED(glGetString), NAMED(glFlush), NAMED(glReadPixels)};
  const proc found = FIND(core, name);
  if (found != NULL) return found;
  if (strcmp(name, "eglSwapBuffersWithDamageKHR") == 0 && getenv("WEIR_FAKE_EGL_DAMAGE") != NULL)
    return (proc)(void*)swap_with_damage;
  if (strcmp(name, "eglPostSubBufferNV") == 0 && getenv("WEIR_FAKE_EXTENSIONS") != NULL)
    return (proc)(void*)post_sub_buffer;
  return NULL;
}
