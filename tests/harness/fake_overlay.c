/* SPDX-License-Identifier: Apache-2.0
 * A library that wraps the driver's presents, as overlays and recorders do: it finds the driver's own functions through
 * dlsym and calls on. Its calls of dlsym reach the stub's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
typedef void (*proc)(void);

static unsigned long swaps;
static int depth;

EXPORT unsigned long weir_fake_overlay_swaps(void) { return swaps; }

static void* driver(const char* name) {
  void* handle = dlopen(getenv("WEIR_FAKE_GL"), RTLD_NOW | RTLD_LOCAL);
  return handle != NULL ? dlsym(handle, name) : NULL;
}

EXPORT void glXSwapBuffers(void* display, unsigned long drawable) {
  void (*next)(void*, unsigned long);
  *(void**)&next = driver("glXSwapBuffers");
  if (++depth > 3) abort(); /* it has called itself */
  ++swaps;
  next(display, drawable);
  --depth;
}

EXPORT void glFlush(void) {
  void (*next)(void);
  *(void**)&next = driver("glFlush");
  if (++depth > 3) abort();
  ++swaps;
  next();
  --depth;
}

EXPORT proc glXGetProcAddress(const unsigned char* name) {
  proc (*next)(const unsigned char*);
  *(void**)&next = driver("glXGetProcAddress");
  if (++depth > 3) abort();
  const proc found = next(name);
  --depth;
  return found;
}
