/* SPDX-License-Identifier: Apache-2.0
 * A driver library for tests and benchmarks of the preloaded stub: presents do nothing but count. The environment says
 * what it claims to be:
 *   WEIR_FAKE_RENDERER     GL_RENDERER; "Fake GPU" when unset
 *   WEIR_FAKE_EGL_DAMAGE   set: eglGetProcAddress knows eglSwapBuffersWithDamageKHR */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
typedef void (*proc)(void);

static _Atomic unsigned long swaps;

/* Counts, for whoever asks; also what a present costs without anybody in between. */
EXPORT unsigned long weir_fake_swaps(void) { return swaps; }
EXPORT void weir_fake_swap(void* display, unsigned long drawable) {
  (void)display;
  (void)drawable;
  ++swaps;
}

EXPORT void glXSwapBuffers(void* display, unsigned long drawable) { weir_fake_swap(display, drawable); }

EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  weir_fake_swap(display, (unsigned long)(size_t)surface);
  return 1;
}

static unsigned swap_with_damage(void* display, void* surface, const int* rects, int count) {
  (void)rects;
  weir_fake_swap(display, (unsigned long)(size_t)surface);
  return (unsigned)count;
}

EXPORT const unsigned char* glGetString(unsigned name) {
  const char* renderer = getenv("WEIR_FAKE_RENDERER");
  (void)name;
  return (const unsigned char*)(renderer != NULL ? renderer : "Fake GPU");
}

EXPORT proc glXGetProcAddress(const unsigned char* name) {
  if (strcmp((const char*)name, "glXSwapBuffers") == 0) return (proc)(void*)glXSwapBuffers;
  if (strcmp((const char*)name, "glXGetProcAddress") == 0) return (proc)(void*)glXGetProcAddress;
  if (strcmp((const char*)name, "glGetString") == 0) return (proc)(void*)glGetString;
  return NULL;
}
EXPORT proc glXGetProcAddressARB(const unsigned char* name) { return glXGetProcAddress(name); }

EXPORT proc eglGetProcAddress(const char* name) {
  if (strcmp(name, "eglSwapBuffers") == 0) return (proc)(void*)eglSwapBuffers;
  if (strcmp(name, "glGetString") == 0) return (proc)(void*)glGetString;
  if (strcmp(name, "eglSwapBuffersWithDamageKHR") == 0 && getenv("WEIR_FAKE_EGL_DAMAGE") != NULL)
    return (proc)(void*)swap_with_damage;
  return NULL;
}
