/* SPDX-License-Identifier: Apache-2.0
 * An unmodified program, as far as the preloaded stub can tell: `probe CASE` does what programs do with dlsym and
 * GetProcAddress and says which expectation didn't hold. WEIR_FAKE_GL, WEIR_FAKE_ANGLE and WEIR_FAKE_OVERLAY name the
 * libraries to open. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*proc)(void);
typedef proc (*get_proc_function)(const char*);
typedef void (*swap_function)(void*, unsigned long);

const char* weir_test_who(void);
const char* weir_test_next_of_first(void);
const char* weir_test_next_of_second(void);

static int failures;
#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      printf("probe.c:%d: does not hold: %s\n", __LINE__, #condition); \
      ++failures;                                                      \
    }                                                                  \
  } while (0)

static void* open_library(const char* variable) {
  const char* path = getenv(variable);
  void* handle = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (handle == NULL) {
    printf("cannot open %s: %s\n", variable, dlerror());
    exit(99);
  }
  return handle;
}

static int is_in(void* address, const char* library) {
  Dl_info info;
  return address != NULL && dladdr(address, &info) != 0 && strstr(info.dli_fname, library) != NULL;
}
#define IS_OURS(address) is_in((void*)(address), "libweir-gl-preload.so")
#define IS_FAKES(address) is_in((void*)(address), "libweir-fake-gl.so")

static swap_function swap_of(void* handle) {
  swap_function swap;
  *(void**)&swap = dlsym(handle, "glXSwapBuffers");
  return swap;
}
static unsigned long swaps_of(void* handle, const char* counter) {
  unsigned long (*count)(void);
  *(void**)&count = dlsym(handle, counter);
  return count != NULL ? count() : ~0ul;
}

static void handle(void) {
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

static void* present_often(void* swap) {
  for (int i = 0; i < 1000; ++i) ((swap_function)swap)(NULL, 1);
  return NULL;
}
static void threads(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  swap_function swap = swap_of(gl);
  pthread_t all[8];
  for (int i = 0; i < 8; ++i) EXPECT(pthread_create(&all[i], NULL, present_often, (void*)swap) == 0);
  for (int i = 0; i < 8; ++i) pthread_join(all[i], NULL);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 8000);
}

/* Parent and child present until stdin ends. */
static void forks(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  swap_function swap = swap_of(gl);
  swap(NULL, 1);
  const pid_t child = fork();
  char byte;
  do {
    swap(NULL, 1);
    usleep(1000);
  } while (read(STDIN_FILENO, &byte, 1) < 0); /* it doesn't block; 0 is its end */
  if (child == 0) _exit(failures);
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(status == 0);
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

typedef int (*glx_make_current_function)(void*, unsigned long, void*);
typedef unsigned (*egl_make_current_function)(void*, void*, void*, void*);
#define CONTEXT_SINGLE_BY_VISUAL ((void*)1)
#define CONTEXT_DOUBLE ((void*)2)
#define CONTEXT_SINGLE ((void*)3)

static void* must_find(void* library, const char* name, int is_ours) {
  void* found = dlsym(library, name);
  EXPECT(found != NULL);
  EXPECT(IS_OURS(found) == is_ours);
  if (found == NULL) exit(97);
  return found;
}
#define FIND(function, library, name, is_ours) *(void**)&(function) = must_find(library, name, is_ours)

static void glx_extensions(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  get_proc_function get;
  int64_t (*swap)(void*, unsigned long, int64_t, int64_t, int64_t);
  FIND(get, gl, "glXGetProcAddressARB", 1);
  *(void**)&swap = (void*)get("glXSwapBuffersMscOML");
  EXPECT(IS_OURS(swap));
  for (int i = 0; i < 3; ++i) EXPECT(swap(NULL, 1, 10, 20, 30) == 60);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 3);
}

/* A frame of many parts. */
static void parts(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  get_proc_function get;
  void (*copy)(void*, unsigned long, int, int, int, int);
  FIND(get, gl, "glXGetProcAddress", 1);
  *(void**)&copy = (void*)get("glXCopySubBufferMESA");
  EXPECT(IS_OURS(copy));
  for (int i = 0; i < 500; ++i) copy(NULL, 1, i, 0, 10, 10);
  FIND(get, gl, "eglGetProcAddress", 1);
  unsigned (*post)(void*, void*, int, int, int, int);
  *(void**)&post = (void*)get("eglPostSubBufferNV");
  EXPECT(IS_OURS(post));
  for (int i = 0; i < 500; ++i) EXPECT(post(NULL, (void*)2, 1, 2, 3, 4) == 10);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 1000);
}

static void glx_single(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  glx_make_current_function make_current;
  void (*flush)(void);
  void (*finish)(void);
  FIND(make_current, gl, "glXMakeCurrent", 1);
  FIND(flush, gl, "glFlush", 1);
  FIND(finish, gl, "glFinish", 1);
  flush(); /* nothing is current */
  for (int frame = 0; frame < 4; ++frame) {
    EXPECT(make_current(NULL, 7, frame < 2 ? CONTEXT_SINGLE : CONTEXT_SINGLE_BY_VISUAL) == 1);
    for (int i = 0; i < 300; ++i) flush();
    finish();
    usleep(5000);
  }
  EXPECT(swaps_of(gl, "weir_fake_flushes") == 1 + 4 * 301);
  EXPECT(make_current(NULL, 0, NULL) == 1);
  flush();
}

static void egl_single(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  egl_make_current_function make_current;
  get_proc_function get;
  FIND(make_current, gl, "eglMakeCurrent", 1);
  FIND(get, gl, "eglGetProcAddress", 1);
  void (*const flush)(void) = get("glFlush");
  EXPECT(IS_OURS(flush));
  EXPECT(make_current(NULL, (void*)7, (void*)7, CONTEXT_SINGLE) == 1);
  for (int frame = 0; frame < 3; ++frame) {
    for (int i = 0; i < 300; ++i) flush();
    usleep(5000);
  }
  EXPECT(swaps_of(gl, "weir_fake_flushes") == 900);
}

/* Flushes before each swap; no driver function is called at a flush. */
static void double_buffered(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  glx_make_current_function make_current;
  void (*flush)(void);
  FIND(make_current, gl, "glXMakeContextCurrent", 1);
  FIND(make_current, gl, "glXMakeCurrent", 1);
  FIND(flush, gl, "glFlush", 1);
  const swap_function swap = swap_of(gl);
  EXPECT(make_current(NULL, 7, CONTEXT_DOUBLE) == 1);
  const unsigned long asked = swaps_of(gl, "weir_fake_queries");
  for (int frame = 0; frame < 3; ++frame) {
    for (int i = 0; i < 300; ++i) flush();
    usleep(5000);
    swap(NULL, 7);
    EXPECT(make_current(NULL, 7, CONTEXT_DOUBLE) == 1); /* as some do for each frame */
  }
  EXPECT(swaps_of(gl, "weir_fake_queries") == asked);
  EXPECT(swaps_of(gl, "weir_fake_flushes") == 900);
}

/* A swap in a single-buffered window only flushes, and some programs do both: their swaps are the frames. */
static void single_swaps(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  glx_make_current_function make_current;
  void (*flush)(void);
  FIND(make_current, gl, "glXMakeCurrent", 1);
  FIND(flush, gl, "glFlush", 1);
  const swap_function swap = swap_of(gl);
  for (int frame = 0; frame < 5; ++frame) {
    EXPECT(make_current(NULL, 7, CONTEXT_SINGLE) == 1);
    if (frame > 0) flush();
    usleep(5000);
    swap(NULL, 7);
  }
}

static void egl_errors(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  egl_make_current_function make_current;
  void (*flush)(void);
  int (*error)(void);
  FIND(make_current, gl, "eglMakeCurrent", 1);
  FIND(flush, gl, "glFlush", 1);
  FIND(error, gl, "eglGetError", 0);
  EXPECT(make_current(NULL, (void*)7, (void*)7, CONTEXT_SINGLE) == 1);
  EXPECT(error() == 0x3000);
  EXPECT(make_current(NULL, (void*)7, (void*)7, (void*)9) == 0);
  for (int i = 0; i < 10; ++i) flush();
  EXPECT(error() == 0x3006);
}

/* Two libraries with a glFlush: each pointer leads to the one that it was asked from. */
static void two_flushes(void) {
  void* over = open_library("WEIR_FAKE_OVERLAY");
  void* gl = open_library("WEIR_FAKE_GL");
  void (*of_overlay)(void);
  void (*of_driver)(void);
  FIND(of_overlay, over, "glFlush", 1);
  FIND(of_driver, gl, "glFlush", 1);
  EXPECT(of_overlay != of_driver);
  EXPECT(dlsym(gl, "glFlush") == *(void**)&of_driver);
  glx_make_current_function make_current;
  FIND(make_current, gl, "glXMakeCurrent", 1);
  EXPECT(make_current(NULL, 7, CONTEXT_SINGLE) == 1);
  of_overlay();
  EXPECT(swaps_of(over, "weir_fake_overlay_swaps") == 1);
  EXPECT(swaps_of(gl, "weir_fake_flushes") == 1);
  of_driver();
  EXPECT(swaps_of(over, "weir_fake_overlay_swaps") == 1);
  EXPECT(swaps_of(gl, "weir_fake_flushes") == 2);
}

static void error_number(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  errno = 4321;
  const swap_function swap = swap_of(gl);
  glx_make_current_function make_current;
  void (*flush)(void);
  *(void**)&make_current = dlsym(gl, "glXMakeCurrent");
  *(void**)&flush = dlsym(gl, "glFlush");
  EXPECT(errno == 4321);
  make_current(NULL, 7, CONTEXT_SINGLE);
  EXPECT(errno == 4321);
  for (int i = 0; i < 3; ++i) {
    swap(NULL, 1);
    EXPECT(errno == 4321);
    flush();
    EXPECT(errno == 4321);
  }
}

static void environment(void) {
  char before[16384], after[16384];
  for (int i = 0; i < 2; ++i) {
    size_t used = 0;
    char* text = i == 0 ? before : after;
    for (char** variable = environ; *variable != NULL; ++variable)
      used += (size_t)snprintf(text + used, sizeof before - used, "%s\n", *variable);
    if (i == 0) handle();
  }
  EXPECT(strcmp(before, after) == 0);
}

static void descriptors(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD, 100);
  int inherited[256];
  for (int fd = 3; fd < 256; ++fd) inherited[fd] = fcntl(fd, F_GETFD) >= 0;
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (int i = 0; i < 3; ++i) swap(NULL, 1);
  for (int fd = 0; fd < 3; ++fd) EXPECT(fcntl(fd, F_GETFD) < 0); /* what is written to stderr goes nowhere of ours */
  EXPECT(dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
  for (int fd = 3; fd < 256; ++fd)
    if (!inherited[fd]) EXPECT(fcntl(fd, F_GETFD) < 0 || (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

static volatile sig_atomic_t ticks;
static void tick(int number) {
  (void)number;
  ++ticks;
}
static void* next_signal(void* gl) { /* in a thread, with its own mask */
  const swap_function swap = swap_of(gl);
  sigset_t before, after;
  struct sigaction actions_before[NSIG], actions_after[NSIG];
  memset(actions_before, 0, sizeof actions_before);
  memset(actions_after, 0, sizeof actions_after);
  for (int i = 1; i < NSIG; ++i) sigaction(i, NULL, &actions_before[i]);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  unsigned long presented = 0;
  while (ticks < 30) {
    swap(NULL, 1);
    ++presented;
  }
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int i = 1; i < NSIG; ++i) {
    sigaction(i, NULL, &actions_after[i]);
    EXPECT(actions_before[i].sa_handler == actions_after[i].sa_handler);
    EXPECT(sigismember(&before, i) == sigismember(&after, i));
  }
  EXPECT(swaps_of(gl, "weir_fake_swaps") == presented);
  return NULL;
}
static void signals(void) {
  struct sigaction action = {.sa_handler = tick}; /* without SA_RESTART */
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, NULL);
  next_signal(open_library("WEIR_FAKE_GL"));
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
}

typedef void (*then_function)(void);
static void on_swap(void* gl, then_function then) {
  void (*set)(then_function);
  FIND(set, gl, "weir_fake_on_swap", 0);
  set(then);
}

/* The driver's present is left by longjmp, as by an X error handler. */
static jmp_buf back;
static void leave_swap(void) { longjmp(back, 1); }
static void longjmps(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  on_swap(gl, leave_swap);
  for (volatile int i = 0; i < 20; ++i)
    if (setjmp(back) == 0) swap(NULL, 1);
  on_swap(gl, NULL);
  for (int i = 0; i < 3; ++i) swap(NULL, 1);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 23);
}

static void wait_for_ever(void) {
  for (;;) pause();
}
static void* present_once(void* swap) {
  ((swap_function)swap)(NULL, 1);
  return NULL;
}
static _Atomic int returned;
static void* present_with_a_cancellation_pending(void* swap) {
  pthread_cancel(pthread_self());
  ((swap_function)swap)(NULL, 1); /* neither the shim nor this driver is a place to be cancelled */
  returned = 1;
  pthread_testcancel();
  returned = 2;
  return NULL;
}
static void cancels(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  const swap_function swap = swap_of(gl);
  pthread_t thread;
  void* result = NULL;
  EXPECT(pthread_create(&thread, NULL, present_with_a_cancellation_pending, (void*)swap) == 0);
  pthread_join(thread, &result);
  EXPECT(result == PTHREAD_CANCELED && returned == 1);
  on_swap(gl, wait_for_ever);
  EXPECT(pthread_create(&thread, NULL, present_once, (void*)swap) == 0);
  while (swaps_of(gl, "weir_fake_swaps") < 2) usleep(100);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  EXPECT(result == PTHREAD_CANCELED);
  on_swap(gl, NULL);
  for (int i = 0; i < 2; ++i) swap(NULL, 1);
  EXPECT(swaps_of(gl, "weir_fake_swaps") == 4);
}

static swap_function last_swap;
static void present_at_exit(void) {
  for (int i = 0; i < 2; ++i) last_swap(NULL, 1);
  write(STDOUT_FILENO, "presented\n", 10);
}
static void exit_in_handler(int number) {
  (void)number;
  exit(7);
}
static void exit_at_once_in_handler(int number) {
  (void)number;
  _exit(8);
}
static void raise_term(void) { raise(SIGTERM); }

/* WEIR_PROBE_END says how the program ends; a thread of its still presents. */
static void ends(void) {
  const char* how = getenv("WEIR_PROBE_END");
  void* gl = open_library("WEIR_FAKE_GL");
  last_swap = swap_of(gl);
  last_swap(NULL, 1);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, present_often, (void*)last_swap) == 0);
  atexit(present_at_exit);
  at_quick_exit(present_at_exit);
  if (strcmp(how, "return") == 0) return;
  if (strcmp(how, "exit") == 0) exit(3);
  if (strcmp(how, "_exit") == 0) _exit(4);
  if (strcmp(how, "quick_exit") == 0) quick_exit(5);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "pthread_exit") == 0) pthread_exit(NULL);
  signal(SIGTERM, strcmp(how, "exit in a handler") == 0 ? exit_in_handler : exit_at_once_in_handler);
  pthread_join(thread, NULL);
  on_swap(gl, raise_term);
  last_swap(NULL, 1);
}

/* The gate is paused: a thread waits there for ever, and the program ends nevertheless. */
static void ends_while_waiting(void) {
  void* gl = open_library("WEIR_FAKE_GL");
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, present_once, (void*)swap_of(gl)) == 0);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) < 0) usleep(1000);
}

static void execs(void) {
  handle();
  if (failures == 0) execl("/proc/self/exe", "probe", "handle", (char*)NULL);
  EXPECT(!"exec works");
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
