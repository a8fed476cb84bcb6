/* SPDX-License-Identifier: Apache-2.0
 * The stub that LD_PRELOAD brings into every program: it answers for the names in kTable and for nothing else, and
 * does nothing else for a program without GL. Presents are reached in three ways, all caught: linked, through dlsym on
 * a handle, through GetProcAddress. The shim proper is opened with RTLD_LOCAL, and only in programs that use GL:
 * /bin/ls carries only this file. What it owes its host is docs/protocol/obligations.md. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/gl/hooks.h"

#define WEIR_EXPORT __attribute__((visibility("default")))
#define WEIR_HIDDEN __attribute__((visibility("hidden")))
#define WEIR_THREAD static __thread __attribute__((tls_model("initial-exec")))

/* -- The names we answer for ------------------------------------------------------------------------------------- */

enum hook {
  kGlxSwapBuffers,
  kGlxSwapBuffersMsc,
  kGlxCopySubBuffer,
  kGlxMakeCurrent,
  kGlxMakeContextCurrent,
  kGlxGetProcAddress,
  kGlxGetProcAddressArb,
  kEglSwapBuffers,
  kEglSwapBuffersWithDamageKhr,
  kEglSwapBuffersWithDamageExt,
  kEglPostSubBuffer,
  kEglMakeCurrent,
  kEglGetProcAddress,
  kGlFlush, /* from here on GL itself; before, the window systems */
  kGlFinish,
  kHooks,
};

typedef struct hook_entry {
  const char* name;
  weir_gl_proc ours;
} hook_entry;
static const hook_entry kTable[kHooks];

static int hook_named(const char* name) {
  const int maybe = name != NULL && ((name[0] == 'g' && name[1] == 'l' && (name[2] == 'X' || name[2] == 'F')) ||
                                     (name[0] == 'e' && name[1] == 'g' && name[2] == 'l'));
  if (!maybe) return -1;
  for (int i = 0; i < kHooks; ++i)
    if (strcmp(name, kTable[i].name) == 0) return i;
  return -1;
}

/* -- Calls in progress ------------------------------------------------------------------------------------------- */

/* What we stand in for, by hook, in the order in which it was found; each entry is written once. Mostly the driver's
 * function and nothing else. But a program may present through a library that wraps the driver's presents (an overlay,
 * a recorder) and finds them by way of us: then the first is the wrapper's, and a call from within goes to the next. */
enum { kReals = 4, kCallsMax = 16 };
static _Atomic(weir_gl_proc) real_functions[kHooks][kReals];

/* This thread's calls through us that have not returned, outermost first. A call may also be left by longjmp: it then
 * lies below the stack of whoever calls next, and is dropped there. */
typedef struct call {
  const void* frame;
  int hook;
} call;
WEIR_THREAD struct {
  call open[kCallsMax];
  int depth;
  int present_depth; /* depth of the outermost present; 0: none. A present inside it is a part of it */
  int in_shim;
  int noted;                  /* at_thread_end knows this thread */
  const weir_gl_hooks* hooks; /* of the outermost present; NULL: it isn't a frame */
  weir_gl_present present;
} calls;

static void settle(void);

static void return_to(int depth) {
  if (calls.present_depth > depth) settle();
  calls.depth = depth;
}

/* Depth before the call, for return_to(); negative: it would come back to us for ever. */
static int enter(int hook, const void* frame) {
  int depth = calls.depth;
  while (depth > 0 && (uintptr_t)calls.open[depth - 1].frame <= (uintptr_t)frame) --depth;
  if (depth != calls.depth) return_to(depth);
  int same = 0;
  for (int i = 0; i < depth; ++i) same += calls.open[i].hook == hook;
  if (same >= kReals || depth == kCallsMax) return -1;
  calls.open[depth] = (call){frame, hook};
  calls.depth = depth + 1;
  return depth;
}

static void remember(int hook, weir_gl_proc found) {
  for (int i = 0; i < kReals; ++i) {
    weir_gl_proc known = NULL;
    if (atomic_compare_exchange_strong(&real_functions[hook][i], &known, found) || known == found) return;
  }
}

/* The one to call from within the calls that are in progress; NULL: none is known. */
static weir_gl_proc known_real(int hook) {
  int outer = 0;
  for (int i = 0; i < calls.depth; ++i) outer += calls.open[i].hook == hook;
  if (outer > 0 && calls.open[calls.depth - 1].hook == hook) --outer; /* the call in question */
  for (int i = outer < kReals ? outer : kReals - 1; i >= 0; --i) {
    const weir_gl_proc known = atomic_load_explicit(&real_functions[hook][i], memory_order_acquire);
    if (known != NULL) return known;
  }
  return NULL;
}

/* glFlush and glFinish exist in several libraries at once (libGL, libOpenGL, libGLESv2, off-screen renderers), and a
 * program may use more than one of them. So what a lookup finds is answered by a function that stands for just that. */
enum { kBound = 8 };
static _Atomic(weir_gl_proc) bound[kBound];
static void end_of_frame(int hook, weir_gl_proc real);
#define WEIR_BOUND(i) \
  static void bound_##i(void) { end_of_frame(kGlFlush, atomic_load_explicit(&bound[i], memory_order_relaxed)); }
WEIR_BOUND(0)
WEIR_BOUND(1)
WEIR_BOUND(2)
WEIR_BOUND(3)
WEIR_BOUND(4)
WEIR_BOUND(5)
WEIR_BOUND(6)
WEIR_BOUND(7)
static const weir_gl_proc kBoundTo[kBound] = {bound_0, bound_1, bound_2, bound_3, bound_4, bound_5, bound_6, bound_7};

/* Some loaders keep a variable of the function's name; and of more libraries than we have functions the rest is left
 * alone. */
static weir_gl_proc bound_to(weir_gl_proc theirs) {
  Dl_info info;
  const ElfW(Sym)* symbol = NULL;
  if (dladdr1((void*)theirs, &info, (void**)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL &&
      (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT || ELF64_ST_TYPE(symbol->st_info) == STT_TLS))
    return theirs;
  for (int i = 0; i < kBound; ++i) {
    weir_gl_proc known = NULL;
    if (theirs == kBoundTo[i] || theirs == kTable[kGlFlush].ours || theirs == kTable[kGlFinish].ours) return theirs;
    if (atomic_compare_exchange_strong(&bound[i], &known, theirs) || known == theirs) return kBoundTo[i];
  }
  return theirs;
}

/* Ours for what the driver has: `theirs` is not NULL. */
static weir_gl_proc answer_for(int hook, weir_gl_proc theirs) {
  if (hook >= kGlFlush) return bound_to(theirs);
  if (theirs != kTable[hook].ours) remember(hook, theirs);
  return kTable[hook].ours;
}

/* -- dlsym ------------------------------------------------------------------------------------------------------- */

typedef void* (*dlsym_function)(void* handle, const char* name);

static void* no_dlsym(void* handle, const char* name) {
  (void)handle;
  (void)name;
  return NULL;
}

/* libc's, for our own questions. */
static dlsym_function real_dlsym(void) {
  static _Atomic(dlsym_function) known;
  dlsym_function found = atomic_load_explicit(&known, memory_order_acquire);
  if (found != NULL) return found;
  /* dlsym moved from libdl to libc in glibc 2.34; older names are each architecture's first version. */
  static const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5", "GLIBC_2.27", "GLIBC_2.0"};
  for (size_t i = 0; found == NULL && i < sizeof versions / sizeof *versions; ++i)
    *(void**)&found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  if (found == NULL) found = no_dlsym;
  atomic_store_explicit(&known, found, memory_order_release);
  return found;
}

/* Whom the program would have asked without us: libc, or another library that hooks dlsym (MangoHud). The assembly
 * below jumps there for every name that isn't ours. */
WEIR_HIDDEN _Atomic(dlsym_function) weir_next_dlsym;

static dlsym_function next_dlsym(void) {
  dlsym_function found = atomic_load_explicit(&weir_next_dlsym, memory_order_acquire);
  if (found != NULL) return found;
  *(void**)&found = real_dlsym()(RTLD_NEXT, "dlsym");
  if (found == NULL) found = real_dlsym();
  atomic_store_explicit(&weir_next_dlsym, found, memory_order_release);
  return found;
}

static void prepare(void);

/* What the library that contains `caller` would find by itself: also if the program opened it privately. */
static void* from_callers_library(const void* caller, const char* name) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return NULL;
  void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* found = handle != NULL ? real_dlsym()(handle, name) : NULL;
  if (handle != NULL) dlclose(handle); /* only our reference */
  return found;
}

/* RTLD_DEFAULT finds our exported symbol by itself. Is there anything behind it? If not, the real dlsym is asked last
 * for what isn't there, so that dlerror has its words. */
static int is_only_ours(const void* caller, const char* name, const void* ours) {
  dlsym_function real = real_dlsym();
  if (real(RTLD_DEFAULT, name) != ours || real(RTLD_NEXT, name) != NULL) return 0;
  const int absent = from_callers_library(caller, name) == NULL;
  if (absent)
    real(RTLD_NEXT, name);
  else
    dlerror();
  return absent;
}

#define WEIR_ABSENT ((void*)-1) /* the assembly below makes it NULL */

/* Our function for `name`, if the library behind `handle` has a function of that name; NULL: none of our business. What
 * RTLD_NEXT means depends on who asks, and is never ours to answer. */
WEIR_HIDDEN void* weir_dlsym_answer(void* handle, const char* name, const void* caller) {
  dlsym_function next = next_dlsym();
  const int hook = hook_named(name);
  if (hook < 0 || handle == RTLD_NEXT) return NULL;
  const int error_number = errno;
  void* ours = *(void* const*)&kTable[hook].ours;
  void* answer = NULL;
  if (handle == RTLD_DEFAULT) {
    answer = is_only_ours(caller, name, ours) ? WEIR_ABSENT : NULL;
  } else {
    answer = next(handle, name);
    /* ANGLE (Chromium, Electron) exports EGL and GL names of its own and presents through the real ones later. */
    const int in_angle = answer != NULL && answer != ours && (name[0] == 'e' || hook >= kGlFlush) &&
                         next(handle, "ANGLEGetDisplayPlatform") != NULL;
    if (answer != NULL && answer != ours && !in_angle) {
      if (name[0] == 'e' || hook >= kGlFlush) dlerror(); /* the probe's failure is not the program's business */
      weir_gl_proc found = NULL;
      *(void**)&found = answer;
      found = answer_for(hook, found);
      answer = *(void**)&found;
      prepare();
    }
  }
  errno = error_number;
  return answer;
}

/* An exported dlsym that keeps its caller's return address: glibc resolves RTLD_NEXT and RTLD_DEFAULT by it. */
#if defined(__x86_64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym,@function\n"
    "dlsym:\n"
    "  endbr64\n"
    "  movq (%rsp), %rdx\n"
    "  pushq %rdi\n"
    "  pushq %rsi\n"
    "  subq $8, %rsp\n"
    "  call weir_dlsym_answer\n"
    "  addq $8, %rsp\n"
    "  popq %rsi\n"
    "  popq %rdi\n"
    "  testq %rax, %rax\n"
    "  jz 1f\n"
    "  cmpq $-1, %rax\n"
    "  jne 2f\n"
    "  xorl %eax, %eax\n"
    "2: ret\n"
    "1: jmp *weir_next_dlsym(%rip)\n"
    ".size dlsym, .-dlsym\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".globl dlsym\n"
    ".type dlsym,%function\n"
    "dlsym:\n"
    "  mov x2, x30\n"
    "  stp x29, x30, [sp, #-32]!\n"
    "  stp x0, x1, [sp, #16]\n"
    "  bl weir_dlsym_answer\n"
    "  mov x9, x0\n"
    "  ldp x0, x1, [sp, #16]\n"
    "  ldp x29, x30, [sp], #32\n"
    "  cbz x9, 1f\n"
    "  cmn x9, #1\n"
    "  csel x0, xzr, x9, eq\n"
    "  ret\n"
    "1: adrp x9, weir_next_dlsym\n"
    "  ldr x9, [x9, #:lo12:weir_next_dlsym]\n"
    "  br x9\n"
    ".size dlsym, .-dlsym\n");
#else
WEIR_EXPORT void* dlsym(void* handle, const char* name) {
  void* answer = weir_dlsym_answer(handle, name, __builtin_return_address(0));
  return answer == WEIR_ABSENT ? NULL : answer != NULL ? answer : next_dlsym()(handle, name);
}
#endif

/* -- The driver's own functions ---------------------------------------------------------------------------------- */

/* In the library of another function of the same window system that we know already. */
static void* from_known_library(const char* name) {
  for (int i = 0; i < kGlFlush; ++i) {
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

/* Functions of the window systems; GL's own are gl_function()'s. */
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

/* A function of the window system that we call but don't answer for. */
static weir_gl_proc other_function(_Atomic(weir_gl_proc)* known, int getter, const char* name) {
  weir_gl_proc found = atomic_load_explicit(known, memory_order_acquire);
  if (found != NULL) return found;
  const weir_gl_get_proc get_proc = (weir_gl_get_proc)(void*)real_function(getter);
  if (get_proc != NULL) found = get_proc(name);
  if (found == NULL) *(void**)&found = from_known_library(name); /* EGL before 1.5 */
  dlerror();
  atomic_store_explicit(known, found, memory_order_release);
  return found;
}

/* -- The shim proper --------------------------------------------------------------------------------------------- */

/* In the shim the thread can't be cancelled: it waits in places where a cancellation would end the process. */
typedef struct host_state {
  int error_number;
  int cancel_state;
} host_state;

static host_state into_shim(void) {
  host_state host = {errno, 0};
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &host.cancel_state);
  calls.in_shim = 1;
  return host;
}

static void out_of_shim(host_state host) {
  calls.in_shim = 0;
  errno = host.error_number;
  pthread_setcancelstate(host.cancel_state, NULL);
}

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
    const host_state host = into_shim();
    hooks = open_shim();
    atomic_store_explicit(&opened, hooks, memory_order_release);
    out_of_shim(host);
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

/* -- Presents ---------------------------------------------------------------------------------------------------- */

/* What this thread draws into, as its last MakeCurrent said. */
WEIR_THREAD struct {
  unsigned long long surface;
  const void* context;
  int context_is_single; /* the context's own buffers, before anything was seen */
  int getter;
  int single;                         /* single-buffered, and nothing was swapped: glFlush and glFinish end a frame */
  unsigned long long swapped;         /* surface of the last swap */
  unsigned long long partial_surface; /* and of the last part of a frame, and when that was shown */
  long long partial_ns;
} drawing;

/* Parts of a frame: copied rectangles, and flushes of a single-buffered window. Programs show several in a row, so what
 * follows within this time belongs to the same frame; 250 such frames a second are more than anybody sees. */
static const long long kFrameOfParts = 4000000;

static long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void settle(void) {
  const weir_gl_hooks* hooks = calls.hooks;
  if (hooks != NULL) {
    const host_state host = into_shim();
    calls.hooks = NULL;
    hooks->after_present(&calls.present);
    if (drawing.partial_ns < 0) drawing.partial_ns = now_ns();
    out_of_shim(host);
  }
  calls.present_depth = 0;
}

/* A thread that is cancelled in the driver's present ends here. */
static void at_thread_end(void* unused) {
  (void)unused;
  return_to(0);
}

static pthread_key_t thread_key;
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static int thread_key_made;
static void make_thread_key(void) { thread_key_made = pthread_key_create(&thread_key, at_thread_end) == 0; }

static void note_thread(void) {
  calls.noted = 1;
  pthread_once(&thread_key_once, make_thread_key);
  if (thread_key_made) pthread_setspecific(thread_key, &calls);
}

enum extent { kWhole, kPart };

/* Depth for return_to(); negative: the driver is not to be called. */
static int begin_present(int hook, unsigned long long surface, int getter, enum extent extent, const void* frame) {
  const int depth = enter(hook, frame);
  if (depth < 0 || calls.present_depth != 0 || calls.in_shim) return depth;
  calls.present_depth = calls.depth;
  if (extent == kWhole) {
    drawing.swapped = surface;
    drawing.single = 0;
  }
  const weir_gl_hooks* hooks = shim();
  if (hooks == NULL) return depth;
  if (extent == kPart) {
    if (drawing.partial_surface == surface && now_ns() - drawing.partial_ns < kFrameOfParts) return depth;
    drawing.partial_surface = surface;
    drawing.partial_ns = -1; /* settle() notes when it ended */
  }
  const host_state host = into_shim();
  if (!calls.noted) note_thread();
  hooks->before_present(&calls.present, surface, (weir_gl_get_proc)(void*)real_function(getter));
  calls.hooks = hooks;
  out_of_shim(host);
  return depth;
}

/* -- Exported presents. Window system types are kept opaque: nothing here needs their headers. -------------------- */

#define WEIR_FRAME __builtin_frame_address(0)

WEIR_EXPORT void glXSwapBuffers(void* display, unsigned long drawable) {
  const int depth = begin_present(kGlxSwapBuffers, drawable, kGlxGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return;
  void (*const real)(void*, unsigned long) = (void (*)(void*, unsigned long))(void*)real_function(kGlxSwapBuffers);
  if (real != NULL) real(display, drawable);
  return_to(depth);
}

WEIR_EXPORT int64_t glXSwapBuffersMscOML(void* display, unsigned long drawable, int64_t target, int64_t divisor,
                                         int64_t rest) {
  const int depth = begin_present(kGlxSwapBuffersMsc, drawable, kGlxGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return -1;
  typedef int64_t (*function)(void*, unsigned long, int64_t, int64_t, int64_t);
  const function real = (function)(void*)real_function(kGlxSwapBuffersMsc);
  const int64_t result = real != NULL ? real(display, drawable, target, divisor, rest) : -1;
  return_to(depth);
  return result;
}

WEIR_EXPORT void glXCopySubBufferMESA(void* display, unsigned long drawable, int x, int y, int width, int height) {
  const int depth = begin_present(kGlxCopySubBuffer, drawable, kGlxGetProcAddress, kPart, WEIR_FRAME);
  if (depth < 0) return;
  typedef void (*function)(void*, unsigned long, int, int, int, int);
  const function real = (function)(void*)real_function(kGlxCopySubBuffer);
  if (real != NULL) real(display, drawable, x, y, width, height);
  return_to(depth);
}

WEIR_EXPORT unsigned eglSwapBuffers(void* display, void* surface) {
  const int depth = begin_present(kEglSwapBuffers, (uintptr_t)surface, kEglGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return 0;
  unsigned (*const real)(void*, void*) = (unsigned (*)(void*, void*))(void*)real_function(kEglSwapBuffers);
  const unsigned result = real != NULL ? real(display, surface) : 0;
  return_to(depth);
  return result;
}

static unsigned swap_with_damage(int hook, void* display, void* surface, const int* rects, int count) {
  const int depth = begin_present(hook, (uintptr_t)surface, kEglGetProcAddress, kWhole, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef unsigned (*function)(void*, void*, const int*, int);
  const function real = (function)(void*)real_function(hook);
  const unsigned result = real != NULL ? real(display, surface, rects, count) : 0;
  return_to(depth);
  return result;
}

WEIR_EXPORT unsigned eglSwapBuffersWithDamageKHR(void* display, void* surface, const int* rects, int count) {
  return swap_with_damage(kEglSwapBuffersWithDamageKhr, display, surface, rects, count);
}

WEIR_EXPORT unsigned eglSwapBuffersWithDamageEXT(void* display, void* surface, const int* rects, int count) {
  return swap_with_damage(kEglSwapBuffersWithDamageExt, display, surface, rects, count);
}

WEIR_EXPORT unsigned eglPostSubBufferNV(void* display, void* surface, int x, int y, int width, int height) {
  const int depth = begin_present(kEglPostSubBuffer, (uintptr_t)surface, kEglGetProcAddress, kPart, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef unsigned (*function)(void*, void*, int, int, int, int);
  const function real = (function)(void*)real_function(kEglPostSubBuffer);
  const unsigned result = real != NULL ? real(display, surface, x, y, width, height) : 0;
  return_to(depth);
  return result;
}

/* -- Single-buffered programs: a frame ends with glFlush or glFinish ---------------------------------------------- */

/* The double-buffered pay a load and a branch: which kind a thread draws into was found out when it made its context
 * current. Asking at each flush would cost more, and on EGL would take an error from the program. */
__attribute__((noinline)) static void end_of_single_frame(int hook, weir_gl_proc real) {
  const int depth = begin_present(hook, drawing.surface, drawing.getter, kPart, WEIR_FRAME);
  if (depth < 0) return;
  real();
  return_to(depth);
}

static void end_of_frame(int hook, weir_gl_proc real) {
  if (__builtin_expect(drawing.single, 0)) return end_of_single_frame(hook, real);
  real();
}

/* What a program that is linked with glFlush would have called: the next one in the order of libraries, or the one of
 * the library that calls. */
__attribute__((noinline)) static weir_gl_proc gl_function(int hook, const void* caller) {
  static const char* const libraries[] = {"libGL.so.1", "libOpenGL.so.0", "libGLESv2.so.2", "libGLESv1_CM.so.1"};
  const int error_number = errno;
  const char* name = kTable[hook].name;
  void* pointer = real_dlsym()(RTLD_NEXT, name);
  if (pointer == NULL) pointer = from_callers_library(caller, name);
  if (pointer == NULL) pointer = from_known_library(name);
  for (size_t i = 0; pointer == NULL && i < sizeof libraries / sizeof *libraries; ++i) {
    void* handle = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) continue;
    pointer = real_dlsym()(handle, name);
    dlclose(handle); /* only our reference */
  }
  dlerror(); /* what we failed to find is not the program's business */
  errno = error_number;
  weir_gl_proc found = NULL;
  *(void**)&found = pointer;
  if (found != NULL) remember(hook, found);
  return found;
}

static inline void linked_end_of_frame(int hook, const void* caller) {
  weir_gl_proc real = atomic_load_explicit(&real_functions[hook][0], memory_order_acquire);
  if (__builtin_expect(real == NULL, 0)) real = gl_function(hook, caller);
  if (__builtin_expect(real != NULL, 1)) end_of_frame(hook, real);
}

WEIR_EXPORT void glFlush(void) { linked_end_of_frame(kGlFlush, __builtin_return_address(0)); }
WEIR_EXPORT void glFinish(void) { linked_end_of_frame(kGlFinish, __builtin_return_address(0)); }

typedef int (*glx_query_context)(void*, void*, int, int*);
typedef void** (*glx_get_fb_configs)(void*, int, int*);
typedef int (*glx_get_fb_config_attrib)(void*, void*, int, int*);
typedef unsigned (*egl_query_context)(void*, void*, int, int*);
typedef int (*egl_get_error)(void);

static void free_of_x(void* list) {
  int (*x_free)(void*) = NULL;
  *(void**)&x_free = real_dlsym()(RTLD_DEFAULT, "XFree");
  dlerror();
  if (x_free != NULL)
    x_free(list);
  else
    free(list); /* as libX11 does, which the program then opened privately */
}

/* The last few configurations this thread met: reading the list of hundreds takes tens of microseconds, and some
 * programs go round their windows in each frame. */
enum { kConfigsKept = 4 };
WEIR_THREAD struct {
  const void* display;
  int id;
  int is_single;
} configs_kept[kConfigsKept];
WEIR_THREAD unsigned configs_met;

/* By the context's configuration, which the client's side of GLX knows without asking the server. Mesa names it by its
 * visual when the context was made from one. */
static int glx_is_single(void* display, void* context) {
  enum { kVisualId = 0x800B, kScreen = 0x800C, kFbConfigId = 0x8013, kDoubleBuffer = 5 };
  static _Atomic(weir_gl_proc) query_known, list_known, attrib_known;
  const glx_query_context query =
      (glx_query_context)(void*)other_function(&query_known, kGlxGetProcAddress, "glXQueryContext");
  const glx_get_fb_configs list =
      (glx_get_fb_configs)(void*)other_function(&list_known, kGlxGetProcAddress, "glXGetFBConfigs");
  const glx_get_fb_config_attrib attrib =
      (glx_get_fb_config_attrib)(void*)other_function(&attrib_known, kGlxGetProcAddress, "glXGetFBConfigAttrib");
  if (query == NULL || list == NULL || attrib == NULL) return 0;
  int key = kFbConfigId, id = 0, screen = 0;
  if (query(display, context, key, &id) != 0 || id <= 0) {
    key = kVisualId;
    if (query(display, context, key, &id) != 0 || id <= 0) return 0; /* made without a configuration */
  }
  for (int i = 0; i < kConfigsKept; ++i)
    if (configs_kept[i].display == display && configs_kept[i].id == id) return configs_kept[i].is_single;
  int count = 0, is_double = 1;
  void** configs = query(display, context, kScreen, &screen) == 0 ? list(display, screen, &count) : NULL;
  if (configs == NULL) return 0;
  for (int i = 0; i < count; ++i) {
    int its_id = 0;
    if (attrib(display, configs[i], key, &its_id) != 0 || its_id != id) continue;
    if (attrib(display, configs[i], kDoubleBuffer, &is_double) != 0) is_double = 1;
    break;
  }
  free_of_x(configs);
  const unsigned place = configs_met++ % kConfigsKept;
  configs_kept[place].display = display;
  configs_kept[place].id = id;
  configs_kept[place].is_single = !is_double;
  return !is_double;
}

/* By what EGL really does, which may differ from what was asked for. Follows a successful eglMakeCurrent, so there is
 * no error that it could take from the program. */
static int egl_is_single(void* display, void* context) {
  enum { kRenderBuffer = 0x3086, kSingleBuffer = 0x3085 };
  static _Atomic(weir_gl_proc) query_known, error_known;
  const egl_query_context query =
      (egl_query_context)(void*)other_function(&query_known, kEglGetProcAddress, "eglQueryContext");
  int buffer = 0;
  if (query == NULL) return 0;
  if (query(display, context, kRenderBuffer, &buffer)) return buffer == kSingleBuffer;
  const egl_get_error error = (egl_get_error)(void*)other_function(&error_known, kEglGetProcAddress, "eglGetError");
  if (error != NULL) error(); /* ours, not the program's */
  return 0;
}

static void now_drawing(void* display, unsigned long long surface, void* context, int getter) {
  if (shim() == NULL) return;
  const host_state host = into_shim();
  /* A context that stays current stays what it is; EGL's buffer also depends on the surface. */
  if (context == NULL || surface == 0)
    drawing.context_is_single = 0;
  else if (getter == kEglGetProcAddress)
    drawing.context_is_single = egl_is_single(display, context);
  else if (drawing.context != context || drawing.getter != getter || drawing.surface == 0)
    drawing.context_is_single = glx_is_single(display, context);
  drawing.context = context;
  drawing.surface = surface;
  drawing.getter = getter;
  drawing.single = drawing.context_is_single && surface != drawing.swapped;
  out_of_shim(host);
}

WEIR_EXPORT int glXMakeCurrent(void* display, unsigned long drawable, void* context) {
  const int depth = enter(kGlxMakeCurrent, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef int (*function)(void*, unsigned long, void*);
  const function real = (function)(void*)real_function(kGlxMakeCurrent);
  const int made = real != NULL && real(display, drawable, context);
  return_to(depth);
  if (made) now_drawing(display, drawable, context, kGlxGetProcAddress);
  return made;
}

WEIR_EXPORT int glXMakeContextCurrent(void* display, unsigned long draw, unsigned long read, void* context) {
  const int depth = enter(kGlxMakeContextCurrent, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef int (*function)(void*, unsigned long, unsigned long, void*);
  const function real = (function)(void*)real_function(kGlxMakeContextCurrent);
  const int made = real != NULL && real(display, draw, read, context);
  return_to(depth);
  if (made) now_drawing(display, draw, context, kGlxGetProcAddress);
  return made;
}

WEIR_EXPORT unsigned eglMakeCurrent(void* display, void* draw, void* read, void* context) {
  const int depth = enter(kEglMakeCurrent, WEIR_FRAME);
  if (depth < 0) return 0;
  typedef unsigned (*function)(void*, void*, void*, void*);
  const function real = (function)(void*)real_function(kEglMakeCurrent);
  const unsigned made = real != NULL ? real(display, draw, read, context) : 0;
  return_to(depth);
  if (made) now_drawing(display, (uintptr_t)draw, context, kEglGetProcAddress);
  return made;
}

/* -- GetProcAddress ---------------------------------------------------------------------------------------------- */

/* Ours only if the driver has it: a program must not believe in an extension that isn't there. */
static weir_gl_proc get_proc_address(int getter, const char* name) {
  const int depth = enter(getter, WEIR_FRAME);
  if (depth < 0) return NULL;
  const weir_gl_get_proc real = (weir_gl_get_proc)(void*)real_function(getter);
  const weir_gl_proc theirs = real != NULL ? real(name) : NULL;
  return_to(depth);
  const int hook = theirs == NULL ? -1 : hook_named(name);
  if (hook < 0) return theirs;
  prepare();
  if (hook >= kGlFlush && theirs == kTable[hook].ours) { /* its library meant its own, and the loader gave it ours */
    const int error_number = errno;
    weir_gl_proc found = NULL;
    *(void**)&found = from_callers_library((void*)real, name);
    dlerror();
    errno = error_number;
    return found != NULL ? bound_to(found) : theirs;
  }
  return answer_for(hook, theirs);
}

WEIR_EXPORT weir_gl_proc glXGetProcAddress(const char* name) { return get_proc_address(kGlxGetProcAddress, name); }
WEIR_EXPORT weir_gl_proc glXGetProcAddressARB(const char* name) {
  return get_proc_address(kGlxGetProcAddressArb, name);
}
WEIR_EXPORT weir_gl_proc eglGetProcAddress(const char* name) { return get_proc_address(kEglGetProcAddress, name); }

static const hook_entry kTable[kHooks] = {
    [kGlxSwapBuffers] = {"glXSwapBuffers", (weir_gl_proc)(void*)glXSwapBuffers},
    [kGlxSwapBuffersMsc] = {"glXSwapBuffersMscOML", (weir_gl_proc)(void*)glXSwapBuffersMscOML},
    [kGlxCopySubBuffer] = {"glXCopySubBufferMESA", (weir_gl_proc)(void*)glXCopySubBufferMESA},
    [kGlxMakeCurrent] = {"glXMakeCurrent", (weir_gl_proc)(void*)glXMakeCurrent},
    [kGlxMakeContextCurrent] = {"glXMakeContextCurrent", (weir_gl_proc)(void*)glXMakeContextCurrent},
    [kGlxGetProcAddress] = {"glXGetProcAddress", (weir_gl_proc)(void*)glXGetProcAddress},
    [kGlxGetProcAddressArb] = {"glXGetProcAddressARB", (weir_gl_proc)(void*)glXGetProcAddressARB},
    [kEglSwapBuffers] = {"eglSwapBuffers", (weir_gl_proc)(void*)eglSwapBuffers},
    [kEglSwapBuffersWithDamageKhr] = {"eglSwapBuffersWithDamageKHR", (weir_gl_proc)(void*)eglSwapBuffersWithDamageKHR},
    [kEglSwapBuffersWithDamageExt] = {"eglSwapBuffersWithDamageEXT", (weir_gl_proc)(void*)eglSwapBuffersWithDamageEXT},
    [kEglPostSubBuffer] = {"eglPostSubBufferNV", (weir_gl_proc)(void*)eglPostSubBufferNV},
    [kEglMakeCurrent] = {"eglMakeCurrent", (weir_gl_proc)(void*)eglMakeCurrent},
    [kEglGetProcAddress] = {"eglGetProcAddress", (weir_gl_proc)(void*)eglGetProcAddress},
    [kGlFlush] = {"glFlush", (weir_gl_proc)(void*)glFlush},
    [kGlFinish] = {"glFinish", (weir_gl_proc)(void*)glFinish},
};
