// SPDX-License-Identifier: Apache-2.0
// Preloaded by tests/e2e/tools_e2e.py after Weir's library: the GPU's clock runs a million times too fast, like
// that of a driver with a wrong period of its timestamps. Changes nothing else.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void (*proc)(void);
typedef void (*get_result)(unsigned query, unsigned what, uint64_t* value);

static get_result g_real;

static void Result(unsigned query, unsigned what, uint64_t* value) {
  g_real(query, what, value);
  *value *= 1000000;
}

static proc Find(const char* through, const char* name) {
  proc (*next)(const char*);
  *(void**)&next = dlsym(RTLD_NEXT, through);
  proc found = next != NULL ? next(name) : NULL;
  if (found == NULL || strcmp(name, "glGetQueryObjectui64v") != 0) return found;
  g_real = (get_result)found;
  return (proc)Result;
}

EXPORT proc glXGetProcAddress(const char* name) { return Find("glXGetProcAddress", name); }
EXPORT proc glXGetProcAddressARB(const char* name) { return Find("glXGetProcAddressARB", name); }
