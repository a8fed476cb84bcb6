/* SPDX-License-Identifier: Apache-2.0
 * An unmodified program, as far as the preloaded stub can tell: `probe CASE` does what programs do with dlsym and
 * GetProcAddress and says which expectation didn't hold. WEIR_FAKE_GL, WEIR_FAKE_ANGLE and WEIR_FAKE_OVERLAY name the
 * libraries to open. */
#define _GNU_SOURCE
#include "tests/shim/probe.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* weir_test_who(void);
const char* weir_test_next_of_first(void);
const char* weir_test_next_of_second(void);

int failures;

void* open_library(const char* variable) {
  const char* path = getenv(variable);
  void* handle = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (handle == NULL) {
    printf("cannot open %s: %s\n", variable, dlerror());
    exit(99);
  }
  return handle;
}

int is_in(void* address, const char* library) {
  Dl_info info;
  return address != NULL && dladdr(address, &info) != 0 && strstr(info.dli_fname, library) != NULL;
}

swap_function swap_of(void* handle) {
  swap_function swap;
  *(void**)&swap = dlsym(handle, "glXSwapBuffers");
  return swap;
}
unsigned long swaps_of(void* handle, const char* counter) {
  unsigned long (*count)(void);
  *(void**)&count = dlsym(handle, counter);
  return count != NULL ? count() : ~0ul;
}

void* must_find(void* library, const char* name, int is_ours) {
  void* found = dlsym(library, name);
  EXPECT(found != NULL);
  EXPECT(IS_OURS(found) == is_ours);
  if (found == NULL) exit(97);
  return found;
}
void handle(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  swap_function swap = swap_of(gl);
  EXPECT(IS_OURS(swap));
  for (int i = 0; i < 5; ++i) swap(NULL, 1);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 5);
  unsigned (*egl_swap)(void*, void*);
  *(void**)&egl_swap = dlsym(gl, "eglSwapBuffers");
  EXPECT(IS_OURS(egl_swap));
  EXPECT(egl_swap(NULL, NULL) == 1);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 6);
}

/* Names that aren't ours, also those that begin as ours do, come from where they always came. */
static void other_names(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  EXPECT(IS_FAKES(dlsym(gl, "glGetString")));
  EXPECT(IS_FAKES(dlsym(gl, "weir_fake_swaps")));
  EXPECT(dlsym(gl, "glXSwapBuffersX") == NULL);
  EXPECT(dlsym(gl, "glXSwapBuffersMscOML") == NULL); /* ours, but this driver doesn't have it */
  EXPECT(dlsym(gl, "eglSwapBuffersWithDamageKHR") == NULL);
  void* libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  void* libc_malloc = dlsym(libc, "malloc");
  EXPECT(is_in(libc_malloc, "libc.so"));
  EXPECT(dlsym(RTLD_DEFAULT, "malloc") == libc_malloc);
  EXPECT(dlsym(RTLD_NEXT, "malloc") == libc_malloc);
  EXPECT(dlsym(RTLD_DEFAULT, "no_such_function") == NULL);
  EXPECT(dlsym(libc, "glXSwapBuffers") == NULL);
}

/* RTLD_NEXT is resolved by who asks: the program, the first library, the second one. */
static void next(void) {
  const char* (*who)(void);
  EXPECT(strcmp(weir_test_who(), "first") == 0);
  *(void**)&who = dlsym(RTLD_NEXT, "weir_test_who");
  EXPECT(who != NULL && strcmp(who(), "first") == 0);
  EXPECT(strcmp(weir_test_next_of_first(), "second") == 0);
  EXPECT(strcmp(weir_test_next_of_second(), "nobody") == 0);
  *(void**)&who = dlsym(RTLD_DEFAULT, "weir_test_who");
  EXPECT(who != NULL && strcmp(who(), "first") == 0);
  EXPECT(IS_OURS(dlsym(RTLD_NEXT, "glXSwapBuffers"))); /* what comes after the program, as the loader says */
}

static void errors(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const char* message;
  dlerror();
  EXPECT(dlsym(gl, "no_such_function") == NULL);
  message = dlerror();
  EXPECT(message != NULL && strstr(message, "no_such_function") != NULL);
  EXPECT(dlerror() == NULL);
  EXPECT(dlsym(gl, "eglSwapBuffersWithDamageKHR") == NULL);
  message = dlerror();
  EXPECT(message != NULL && strstr(message, "eglSwapBuffersWithDamageKHR") != NULL);
  static const char* const found[] = {"glXSwapBuffers", "eglSwapBuffers", "eglGetProcAddress", "glGetString"};
  for (int i = 0; i < 4; ++i) {
    EXPECT(dlsym(gl, found[i]) != NULL);
    EXPECT(dlerror() == NULL);
  }
}

static void glx_get_proc(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  static const char* const getters[] = {"glXGetProcAddress", "glXGetProcAddressARB"};
  for (int i = 0; i < 2; ++i) {
    get_proc_function get;
    *(void**)&get = dlsym(gl, getters[i]);
    EXPECT(IS_OURS(get));
    EXPECT(IS_OURS(get("glXSwapBuffers")));
    EXPECT(IS_OURS(get("glXGetProcAddress")));
    EXPECT(IS_FAKES(get("glGetString")));
    EXPECT(get("glXSwapBuffersMscOML") == NULL);
    EXPECT(get("glXNoSuchFunction") == NULL);
    const swap_function swap = (swap_function)(void*)get("glXSwapBuffers");
    swap(NULL, 1);
  }
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 2);
}

static void egl_get_proc(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  get_proc_function get;
  *(void**)&get = dlsym(gl, "eglGetProcAddress");
  EXPECT(IS_OURS(get));
  EXPECT(IS_OURS(get("eglSwapBuffers")));
  EXPECT(get("eglSwapBuffersWithDamageEXT") == NULL);
  unsigned (*swap)(void*, void*, const int*, int);
  *(void**)&swap = (void*)get("eglSwapBuffersWithDamageKHR");
  if (getenv("WEIR_FAKE_EGL_DAMAGE") == NULL) {
    EXPECT(swap == NULL);
    return;
  }
  EXPECT(IS_OURS(swap));
  const int rects[] = {0, 0, 1, 1};
  EXPECT(swap(NULL, NULL, rects, 42) == 42);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 1);
}

static void angle(void) {
  void* gl = open_library("WEIR_FAKE_ANGLE");
  static const char* const names[] = {"eglSwapBuffers", "eglGetProcAddress", "eglMakeCurrent", "glFlush"};
  for (int i = 0; i < 4; ++i) EXPECT(is_in(dlsym(gl, names[i]), "libweir-fake-angle.so"));
  unsigned (*swap)(void*, void*);
  *(void**)&swap = dlsym(gl, "eglSwapBuffers");
  EXPECT(swap(NULL, NULL) == 77);
}

/* The program presents through an overlay, which presents through the driver: two presents, one after the other. */
static void overlay(void) {
  void* over = open_library("WEIR_FAKE_OVERLAY");
  void* gl = open_library("WEIR_FAKE_GL");
  swap_function swap = swap_of(over);
  for (int i = 0; i < 3; ++i) swap(NULL, 1);
  EXPECT(swaps_of(over, "weir_fake_overlay_swaps") == 3);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 3);
  get_proc_function get;
  *(void**)&get = dlsym(over, "glXGetProcAddress");
  EXPECT(IS_FAKES(get("glGetString")));
  EXPECT(get("glXNoSuchFunction") == NULL);
}

/* Another library hooks dlsym too: it is asked as it would be without us. */
static void hooker(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  for (int i = 0; i < 3; ++i) swap(NULL, 1);
  EXPECT(swaps_of(gl, "weir_fake_hooker_swaps") == 3);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 3);
}

/* No library has GL here: its names are absent as without the stub, until a library with them is loaded. */
static void absent(void) {
  static const char* const names[] = {"glXSwapBuffers", "eglSwapBuffers", "glXGetProcAddressARB", "glFlush"};
  for (int i = 0; i < 4; ++i) {
    dlerror();
    EXPECT(dlsym(RTLD_DEFAULT, names[i]) == NULL);
    const char* message = dlerror();
    EXPECT(message != NULL && strstr(message, names[i]) != NULL);
  }
  EXPECT(dlopen(getenv("WEIR_FAKE_GL"), RTLD_NOW | RTLD_GLOBAL) != NULL);
  for (int i = 0; i < 4; ++i) {
    EXPECT(IS_OURS(dlsym(RTLD_DEFAULT, names[i])));
    EXPECT(dlerror() == NULL);
  }
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } cases[] = {{"handle", handle},
               {"other-names", other_names},
               {"next", next},
               {"errors", errors},
               {"glx-get-proc", glx_get_proc},
               {"egl-get-proc", egl_get_proc},
               {"angle", angle},
               {"overlay", overlay},
               {"hooker", hooker},
               {"threads", threads},
               {"forks", forks},
               {"absent", absent},
               {"glx-extensions", glx_extensions},
               {"parts", parts},
               {"glx-single", glx_single},
               {"egl-single", egl_single},
               {"double-buffered", double_buffered},
               {"single-swaps", single_swaps},
               {"egl-errors", egl_errors},
               {"two-flushes", two_flushes},
               {"readbacks", readbacks},
               {"egl-readbacks", egl_readbacks},
               {"batch-kinds", batch_kinds},
               {"tiny-flushes", tiny_flushes},
               {"presents-and-readbacks", presents_and_readbacks},
               {"stops-presenting", stops_presenting},
               {"hidden-window", hidden_window},
               {"leaves-contexts", leaves_contexts},
               {"writes-only", writes_only},
               {"errno", error_number},
               {"environment", environment},
               {"descriptors", descriptors},
               {"signals", signals},
               {"longjmps", longjmps},
               {"cancels", cancels},
               {"ends", ends},
               {"ends-while-waiting", ends_while_waiting},
               {"execs", execs}};
  for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(argv[1], cases[i].name) != 0) continue;
    cases[i].run();
    if (failures == 0) printf("ok\n");
    return failures;
  }
  printf("usage: probe CASE\n");
  return 98;
}
