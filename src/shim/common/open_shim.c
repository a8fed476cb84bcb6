/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/common/open_shim.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shim's path from the folder of the library that opens it. */
#ifndef WEIR_SHIM_FROM_HERE
#define WEIR_SHIM_FROM_HERE "libweir-shim.so"
#endif

const void* weir_open_shim(const char* name, unsigned version, void* (*find)(void*, const char*)) {
  static const char kName[] = WEIR_SHIM_FROM_HERE;
  const char* attach = getenv("WEIR_ATTACH");
  if (attach == NULL || *attach == '\0') return NULL;
  Dl_info self;
  if (dladdr((void*)kName, &self) == 0 || self.dli_fname == NULL) return NULL;
  const char* slash = strrchr(self.dli_fname, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - self.dli_fname) + 1;
  char path[4096];
  if (folder + sizeof kName > sizeof path) return NULL;
  memcpy(path, self.dli_fname, folder);
  memcpy(path + folder, kName, sizeof kName);
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const void* (*get)(void) = NULL;
  if (handle != NULL) *(void**)&get = find(handle, name);
  const void* hooks = get != NULL ? get() : NULL;
  if (hooks != NULL && *(const unsigned*)hooks == version) return hooks;
  static atomic_flag said = ATOMIC_FLAG_INIT;
  const char* why = handle == NULL ? dlerror() : "another version";
  if (!atomic_flag_test_and_set(&said))
    fprintf(stderr, "weir: %s can't be used (%s); this program runs unthrottled\n", path, why);
  return NULL;
}
