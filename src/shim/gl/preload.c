/* SPDX-License-Identifier: Apache-2.0
 * The stub that LD_PRELOAD brings into every program: it answers for the dozen names in kHooks and for nothing else,
 * and does nothing else for a program without GL. Presents are reached in three ways, all caught: linked, through
 * dlsym on a handle, through GetProcAddress. The shim proper is opened with RTLD_LOCAL, and only in programs that use
 * GL: /bin/ls carries only this file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/gl/hooks.h"

#define WEIR_EXPORT __attribute__((visibility("default")))
#define WEIR_HIDDEN __attribute__((visibility("hidden")))

/* -- The names we answer for ------------------------------------------------------------------------------------- */

enum hook {
  kGlxSwapBuffers,
  kGlxSwapBuffersMsc,
  kGlxGetProcAddress,
  kGlxGetProcAddressArb,
  kEglSwapBuffers,
  kEglSwapBuffersWithDamageKhr,
  kEglSwapBuffersWithDamageExt,
  kEglGetProcAddress,
  kHooks,
};

typedef struct hook_entry {
  const char* name;
  weir_gl_proc ours;
} hook_entry;
static const hook_entry kTable[kHooks];

/* What we stand in for, by hook, in the order in which it was found; each entry is written once. Mostly the driver's
 * function and nothing else. But a program may present through a library that wraps the driver's presents (an overlay,
 * a recorder) and finds them by way of us: then the first is the wrapper's, and a call from within goes to the next. */
enum { kReals = 4 };
static _Atomic(weir_gl_proc) real_functions[kHooks][kReals];
/* How deep this thread is in calls through each hook. */
static __thread unsigned char depths[kHooks] __attribute__((tls_model("initial-exec")));

static void remember(int hook, weir_gl_proc found) {
  for (int i = 0; i < kReals; ++i) {
    weir_gl_proc known = NULL;
    if (atomic_compare_exchange_strong(&real_functions[hook][i], &known, found) || known == found) return;
  }
}

/* The one to call at this depth; NULL: none is known. */
static weir_gl_proc known_real(int hook) {
  for (int i = depths[hook] < kReals ? depths[hook] : kReals - 1; i >= 0; --i) {
    const weir_gl_proc known = atomic_load_explicit(&real_functions[hook][i], memory_order_acquire);
    if (known != NULL) return known;
  }
  return NULL;
}

static int hook_named(const char* name) {
  const int maybe = name != NULL && ((name[0] == 'g' && name[1] == 'l' && name[2] == 'X') ||
                                     (name[0] == 'e' && name[1] == 'g' && name[2] == 'l'));
  if (!maybe) return -1;
  for (int i = 0; i < kHooks; ++i)
    if (strcmp(name, kTable[i].name) == 0) return i;
  return -1;
}

/* -- dlsym ------------------------------------------------------------------------------------------------------- */

typedef void* (*dlsym_function)(void* handle, const char* name);

static void* no_dlsym(void* handle, const char* name) {
  (void)handle;
  (void)name;
  return NULL;
}

/* Where the assembly below jumps for every name that isn't ours. */
WEIR_HIDDEN _Atomic(dlsym_function) weir_real_dlsym;

static dlsym_function real_dlsym(void) {
  dlsym_function found = atomic_load_explicit(&weir_real_dlsym, memory_order_acquire);
  if (found != NULL) return found;
  /* dlsym moved from libdl to libc in glibc 2.34; older names are each architecture's first version. */
  static const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", "GLIBC_2.27", "GLIBC_2.0"};
  for (size_t i = 0; found == NULL && i < sizeof versions / sizeof *versions; ++i)
    *(void**)&found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  if (found == NULL) found = no_dlsym;
  atomic_store_explicit(&weir_real_dlsym, found, memory_order_release);
  return found;
}

static void prepare(void);

/* Our function for `name`, if the library behind `handle` has a function of that name; else NULL. Pseudo handles are
 * not ours to answer: RTLD_DEFAULT finds our exported symbol by itself, RTLD_NEXT asks for what comes after the caller.
 */
WEIR_HIDDEN void* weir_dlsym_answer(void* handle, const char* name) {
  dlsym_function next = real_dlsym();
  const int hook = hook_named(name);
  if (hook < 0 || handle == RTLD_DEFAULT || handle == RTLD_NEXT) return NULL;
  void* theirs = next(handle, name);
  void* ours = *(void* const*)&kTable[hook].ours;
  if (theirs == NULL || theirs == ours) return theirs;
  /* ANGLE (Chromium, Electron) exports EGL names of its own and presents through the real ones later. */
  if (name[0] == 'e' && next(handle, "ANGLEGetDisplayPlatform") != NULL) return theirs;
  if (name[0] == 'e') dlerror(); /* the probe's failure is not the program's business */
  weir_gl_proc found = NULL;
  *(void**)&found = theirs;
  remember(hook, found);
  prepare();
  return ours;
}

/* An exported dlsym that keeps its caller's return address: glibc resolves RTLD_NEXT and RTLD_DEFAULT by it. */
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym,@function\n"
    "dlsym:\n"
    "  endbr64\n"
    "  pushq %rdi\n"
    "  pushq %rsi\n"
    "  subq $8, %rsp\n"
    "  call weir_dlsym_answer\n"
    "  addq $8, %rsp\n"
    "  popq %rsi\n"
    "  popq %rdi\n"
    "  testq %rax, %rax\n"
    "  jz 1f\n"
    "  ret\n"
    "1: jmp *weir_real_dlsym(%rip)\n"
    ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym,%function\n"
    "dlsym:\n"
    "  stp x29, x30, [sp, #-32]!\n"
    "  stp x0, x1, [sp, #16]\n"
    "  bl weir_dlsym_answer\n"
    "  mov x9, x0\n"
    "  ldp x0, x1, [sp, #16]\n"
    "  ldp x29, x30, [sp], #32\n"
    "  cbz x9, 1f\n"
    "  mov x0, x9\n"
    "  ret\n"
    "1: adrp x9, weir_real_dlsym\n"
    "  ldr x9, [x9, #:lo12:weir_real_dlsym]\n"
    "  br x9\n"
    ".size dlsym, .-dlsym\n");
#else
WEIR_EXPORT void* dlsym(void* handle, const char* name) {
  void* answer = weir_dlsym_answer(handle, name);
  return answer != NULL ? answer : real_dlsym()(handle, name);
}
#endif

/* -- The driver's own functions ---------------------------------------------------------------------------------- */

/* In the library of another function of the same window system that we know already. */
static void* from_known_library(const char* name) {
  for (int i = 0; i < kHooks; ++i) {
    const weir_gl_proc known = kTable[i].name[0] == name[0] ? known_real(i) : NULL;
    Dl_info info;
    if (known == NULL || dladdr((void*)known, &info) == 0 || info.dli_fname == NULL) continue;
    void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void* found = handle != NULL ? real_dlsym()(handle, name) : NULL;
    if (handle != NULL) dlclose(handle); /* only our reference: the program keeps the library */
    if (found != NULL) return found;
  }
  return NULL;
}

static void* from_system_library(const char* name) {
  static const char* const glx[] = {"libGLX.so.0", "libGL.so.1", NULL};
  static const char* const egl[] = {"libEGL.so.1", NULL};
  void* found = NULL;
  for (const char* const* library = name[0] == 'e' ? egl : glx; found == NULL && *library != NULL; ++library) {
    void* handle = dlopen(*library, RTLD_LAZY | RTLD_LOCAL);
    if (handle != NULL) found = real_dlsym()(handle, name);
  }
  return found;
}

static weir_gl_proc real_function(int hook) {
  weir_gl_proc found = known_real(hook);
  if (found != NULL) return found;
  const char* name = kTable[hook].name;
  void* pointer = real_dlsym()(RTLD_NEXT, name);
  /* Or the library was opened privately: by the program, or by nobody yet. */
  if (pointer == NULL) pointer = from_known_library(name);
  if (pointer == NULL) pointer = from_system_library(name);
  if (pointer == NULL) { /* an extension: only GetProcAddress knows it */
    const int getter = name[0] == 'e' ? kEglGetProcAddress : kGlxGetProcAddress;
    if (hook != getter && hook != kGlxGetProcAddressArb) {
      const weir_gl_get_proc get_proc = (weir_gl_get_proc)(void*)real_function(getter);
      if (get_proc != NULL) found = get_proc(name);
    }
  } else {
    *(void**)&found = pointer;
  }
  dlerror(); /* what we failed to find is not the program's business */
  if (found == kTable[hook].ours) found = NULL;
  if (found != NULL) remember(hook, found);
  return found;
}

/* -- The shim proper --------------------------------------------------------------------------------------------- */

static const weir_gl_hooks kNothing = {0};

static const weir_gl_hooks* open_shim(void) {
  const char* attach = getenv("WEIR_ATTACH");
  if (attach == NULL || *attach == '\0') return &kNothing;
  Dl_info self;
  if (dladdr((void*)&kNothing, &self) == 0 || self.dli_fname == NULL) return &kNothing;
  const char* slash = strrchr(self.dli_fname, '/');
  const size_t folder = slash == NULL ? 0 : (size_t)(slash - self.dli_fname) + 1;
  char path[4096];
  static const char kName[] = "libweir-gl.so";
  if (folder + sizeof kName > sizeof path) return &kNothing;
  memcpy(path, self.dli_fname, folder);
  memcpy(path + folder, kName, sizeof kName);
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const weir_gl_hooks* (*get)(void) = NULL;
  if (handle != NULL) *(void**)&get = real_dlsym()(handle, "weir_gl_shim_hooks");
  const weir_gl_hooks* hooks = get != NULL ? get() : NULL;
  if (hooks == NULL || hooks->version != WEIR_GL_HOOKS_VERSION) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char* why = handle == NULL ? dlerror() : "another version";
    if (!atomic_flag_test_and_set(&said))
      fprintf(stderr, "weir: %s can't be used (%s); this program runs unthrottled\n", path, why);
    return &kNothing;
  }
  return hooks;
}

/* NULL: stay out of the way. Two threads that present for the first time at once both open it: dlopen counts. */
static const weir_gl_hooks* shim(void) {
  static _Atomic(const weir_gl_hooks*) opened;
  const weir_gl_hooks* hooks = atomic_load_explicit(&opened, memory_order_acquire);
  if (hooks == NULL) {
    hooks = open_shim();
    atomic_store_explicit(&opened, hooks, memory_order_release);
  }
  return hooks == &kNothing ? NULL : hooks;
}

/* Opens the shim as soon as it shows that the program uses GL, while its heap is still small: what dlopen allocates at
 * the first present comes to lie where glmark2's frames grow and trim the heap, which doubled its calls of brk and cost
 * it 6 % of its CPU time. */
static void prepare(void) { (void)shim(); }

/* A linked program's libraries are there before its main(). */
__attribute__((constructor)) static void prepare_linked_program(void) {
  static const char* const libraries[] = {"libGLX.so.0", "libGL.so.1", "libEGL.so.1"};
  if (getenv("WEIR_ATTACH") == NULL) return;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; ++i) {
    void* handle = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) continue;
    dlclose(handle); /* only our reference */
    prepare();
    break;
  }
  dlerror(); /* what isn't loaded is not the program's business */
}

/* A present inside a present (a wrapper library that calls on through us) counts once. */
static __thread int presenting __attribute__((tls_model("initial-exec")));

#define WEIR_PRESENT(hook, surface, getter, call)                                                                     \
  do {                                                                                                                \
    if (depths[hook] >= kReals) break; /* it comes back to us for ever */                                             \
    const weir_gl_hooks* hooks = presenting ? NULL : shim();                                                          \
    weir_gl_present present;                                                                                          \
    ++presenting;                                                                                                     \
    if (hooks != NULL)                                                                                                \
      hooks->before_present(&present, (unsigned long long)(surface), (weir_gl_get_proc)(void*)real_function(getter)); \
    ++depths[hook];                                                                                                   \
    call;                                                                                                             \
    --depths[hook];                                                                                                   \
    if (hooks != NULL) hooks->after_present(&present);                                                                \
    --presenting;                                                                                                     \
  } while (0)

/* -- Exported functions. Window system types are kept opaque: nothing here needs their headers. ------------------- */

WEIR_EXPORT void glXSwapBuffers(void* display, unsigned long drawable) {
  void (*const real)(void*, unsigned long) = (void (*)(void*, unsigned long))(void*)real_function(kGlxSwapBuffers);
  if (real == NULL) return;
  WEIR_PRESENT(kGlxSwapBuffers, drawable, kGlxGetProcAddress, real(display, drawable));
}

WEIR_EXPORT int64_t glXSwapBuffersMscOML(void* display, unsigned long drawable, int64_t target, int64_t divisor,
                                         int64_t rest) {
  typedef int64_t (*function)(void*, unsigned long, int64_t, int64_t, int64_t);
  const function real = (function)(void*)real_function(kGlxSwapBuffersMsc);
  int64_t result = -1;
  if (real == NULL) return result;
  WEIR_PRESENT(kGlxSwapBuffersMsc, drawable, kGlxGetProcAddress,
               result = real(display, drawable, target, divisor, rest));
  return result;
}

WEIR_EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  unsigned (*const real)(void*, void*) = (unsigned (*)(void*, void*))(void*)real_function(kEglSwapBuffers);
  unsigned result = 0;
  if (real == NULL) return result;
  WEIR_PRESENT(kEglSwapBuffers, (uintptr_t)surface, kEglGetProcAddress, result = real(display, surface));
  return result;
}

static unsigned swap_with_damage(int hook, void* display, void* surface, const int* rects, int count) {
  typedef unsigned (*function)(void*, void*, const int*, int);
  const function real = (function)(void*)real_function(hook);
  unsigned result = 0;
  if (real == NULL) return result;
  WEIR_PRESENT(hook, (uintptr_t)surface, kEglGetProcAddress, result = real(display, surface, rects, count));
  return result;
}

WEIR_EXPORT unsigned eglSwapBuffersWithDamageKHR(void* display, void* surface, const int* rects, int count) {
  return swap_with_damage(kEglSwapBuffersWithDamageKhr, display, surface, rects, count);
}

WEIR_EXPORT unsigned eglSwapBuffersWithDamageEXT(void* display, void* surface, const int* rects, int count) {
  return swap_with_damage(kEglSwapBuffersWithDamageExt, display, surface, rects, count);
}

/* Ours only if the driver has it: a program must not believe in an extension that isn't there. */
static weir_gl_proc get_proc_address(int getter, const char* name) {
  const weir_gl_get_proc real = (weir_gl_get_proc)(void*)real_function(getter);
  if (real == NULL) return NULL;
  if (depths[getter] >= kReals) return NULL; /* it comes back to us for ever */
  ++depths[getter];
  const weir_gl_proc theirs = real(name);
  --depths[getter];
  const int hook = theirs == NULL ? -1 : hook_named(name);
  if (hook < 0) return theirs;
  if (theirs != kTable[hook].ours) remember(hook, theirs);
  prepare();
  return kTable[hook].ours;
}

WEIR_EXPORT weir_gl_proc glXGetProcAddress(const char* name) { return get_proc_address(kGlxGetProcAddress, name); }
WEIR_EXPORT weir_gl_proc glXGetProcAddressARB(const char* name) {
  return get_proc_address(kGlxGetProcAddressArb, name);
}
WEIR_EXPORT weir_gl_proc eglGetProcAddress(const char* name) { return get_proc_address(kEglGetProcAddress, name); }

static const hook_entry kTable[kHooks] = {
    [kGlxSwapBuffers] = {"glXSwapBuffers", (weir_gl_proc)(void*)glXSwapBuffers},
    [kGlxSwapBuffersMsc] = {"glXSwapBuffersMscOML", (weir_gl_proc)(void*)glXSwapBuffersMscOML},
    [kGlxGetProcAddress] = {"glXGetProcAddress", (weir_gl_proc)(void*)glXGetProcAddress},
    [kGlxGetProcAddressArb] = {"glXGetProcAddressARB", (weir_gl_proc)(void*)glXGetProcAddressARB},
    [kEglSwapBuffers] = {"eglSwapBuffers", (weir_gl_proc)(void*)eglSwapBuffers},
    [kEglSwapBuffersWithDamageKhr] = {"eglSwapBuffersWithDamageKHR", (weir_gl_proc)(void*)eglSwapBuffersWithDamageKHR},
    [kEglSwapBuffersWithDamageExt] = {"eglSwapBuffersWithDamageEXT", (weir_gl_proc)(void*)eglSwapBuffersWithDamageEXT},
    [kEglGetProcAddress] = {"eglGetProcAddress", (weir_gl_proc)(void*)eglGetProcAddress},
};
