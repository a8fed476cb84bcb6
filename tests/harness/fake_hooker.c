/* SPDX-License-Identifier: Apache-2.0
 * A library that hooks presents as the stub does (MangoHud): by its own dlsym, bypassing all other libraries. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static unsigned long swaps;
static void (*driver)(void*, unsigned long);

static unsigned long count(void) { return swaps; }
static void swap(void* display, unsigned long drawable) {
  ++swaps;
  driver(display, drawable);
}

EXPORT void* dlsym(void* restrict handle, const char* restrict name) {
  static void* (*real)(void*, const char*);
  if (real == NULL) *(void**)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (real == NULL) *(void**)&real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (strcmp(name, "weir_fake_hooker_swaps") == 0) return (void*)count;
  void* found = real(handle, name);
  if (found == NULL || handle == RTLD_NEXT || strcmp(name, "glXSwapBuffers") != 0) return found;
  *(void**)&driver = found;
  return (void*)swap;
}
