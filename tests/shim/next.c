/* SPDX-License-Identifier: Apache-2.0
 * Two libraries are made of this, first and second: RTLD_NEXT means something else in each. */
#define _GNU_SOURCE
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))
#define JOIN(a, b) a##b
#define NAMED(prefix, suffix) JOIN(prefix, suffix)

EXPORT const char* weir_test_who(void) { return WHO; }

/* Who comes after this library. */
EXPORT const char* NAMED(weir_test_next_of_, NAME)(void) {
  const char* (*next)(void) = 0;
  *(void**)&next = dlsym(RTLD_NEXT, "weir_test_who");
  return next != 0 ? next() : "nobody";
}
