/* SPDX-License-Identifier: Apache-2.0
 * Whom a name leads to: what the program is answered, and what we call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "shim/gl/preload.h"

int hook_named(const char* name) {
  const int maybe =
      name != NULL && ((name[0] == 'g' && name[1] == 'l' && name[2] != '\0' && strchr("XFRGMCD", name[2])) ||
                       (name[0] == 'e' && name[1] == 'g' && name[2] == 'l'));
  if (!maybe) return -1;
  for (int i = 0; i < kHooks; ++i)
    if (strcmp(name, kTable[i].name) == 0) return i;
  return -1;
}

_Atomic(weir_gl_proc) real_functions[kHooks][kReals];

void remember(int hook, weir_gl_proc found) {
  for (int i = 0; i < kReals; ++i) {
    weir_gl_proc known = NULL;
    if (atomic_compare_exchange_strong(&real_functions[hook][i], &known, found) || known == found) return;
  }
}

/* The function to call next, given the calls of this hook that are in progress; NULL: none is known. */
static weir_gl_proc known_real(int hook) {
  const int outer = outer_calls(hook);
  for (int i = outer < kReals ? outer : kReals - 1; i >= 0; --i) {
    const weir_gl_proc known = atomic_load_explicit(&real_functions[hook][i], memory_order_acquire);
    if (known != NULL) return known;
  }
  return NULL;
}

_Atomic(weir_gl_proc) bound_functions[kHooks][kBound];

/* The stub's function that stands for `theirs`. Returns `theirs` itself for a variable, because some loaders have
 * variables with the names of functions, and once all kBound functions are used. */
static weir_gl_proc bound_to(int hook, weir_gl_proc theirs) {
  Dl_info info;
  const ElfW(Sym)* symbol = NULL;
  if (dladdr1((void*)theirs, &info, (void**)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL &&
      (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT || ELF64_ST_TYPE(symbol->st_info) == STT_TLS))
    return theirs;
  for (int i = 0; i < kBound; ++i) {
    weir_gl_proc known = NULL;
    if (theirs == kTable[hook].bound_to[i] || theirs == kTable[hook].ours) return theirs;
    if (atomic_compare_exchange_strong(&bound_functions[hook][i], &known, theirs) || known == theirs)
      return kTable[hook].bound_to[i];
  }
  return theirs;
}

weir_gl_proc answer_for(int hook, weir_gl_proc theirs) {
  if (hook >= kGl) return bound_to(hook, theirs);
  if (theirs != kTable[hook].ours) remember(hook, theirs);
  return kTable[hook].ours;
}

/* -- dlsym ------------------------------------------------------------------------------------------------------- */

static void* no_dlsym(void* handle, const char* name) {
  (void)handle;
  (void)name;
  return NULL;
}

dlsym_function real_dlsym(void) {
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

/* The dlsym that the program would have called without the stub: libc's, or that of another library that hooks dlsym
 * (MangoHud). The assembly below jumps there for every name that is not hooked. */
WEIR_HIDDEN _Atomic(dlsym_function) weir_next_dlsym;

static dlsym_function next_dlsym(void) {
  dlsym_function found = atomic_load_explicit(&weir_next_dlsym, memory_order_acquire);
  if (found != NULL) return found;
  *(void**)&found = real_dlsym()(RTLD_NEXT, "dlsym");
  if (found == NULL) found = real_dlsym();
  atomic_store_explicit(&weir_next_dlsym, found, memory_order_release);
  return found;
}

void* from_callers_library(const void* caller, const char* name) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return NULL;
  void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* found = handle != NULL ? real_dlsym()(handle, name) : NULL;
  if (handle != NULL) dlclose(handle); /* releases only this reference */
  return found;
}

/* Whether a lookup with RTLD_DEFAULT finds only the stub's exported symbol and no driver's function behind it. The last
 * lookup is then one that fails, so that dlerror returns the message that the program would get without the stub. */
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

/* The stub's function for `name`, if the library behind `handle` has a function of that name. NULL: the next dlsym
 * answers. The meaning of RTLD_NEXT depends on the caller, so the stub never answers such a lookup. */
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
    /* ANGLE (Chromium, Electron) exports EGL and GL names of its own, and later presents through the driver's. */
    const int in_angle = answer != NULL && answer != ours && (name[0] == 'e' || hook >= kGl) &&
                         next(handle, "ANGLEGetDisplayPlatform") != NULL;
    if (answer != NULL && answer != ours && !in_angle) {
      if (name[0] == 'e' || hook >= kGl) dlerror(); /* clears the error of the lookup above */
      weir_gl_proc found = NULL;
      *(void**)&found = answer;
      found = answer_for(hook, found);
      answer = *(void**)&found;
      shim();
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

void* from_known_library(const char* name) {
  for (int i = 0; i < kGl; ++i) {
    const weir_gl_proc known = kTable[i].name[0] == name[0] ? known_real(i) : NULL;
    Dl_info info;
    if (known == NULL || dladdr((void*)known, &info) == 0 || info.dli_fname == NULL) continue;
    void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void* found = handle != NULL ? real_dlsym()(handle, name) : NULL;
    if (handle != NULL) dlclose(handle); /* releases only this reference; the program keeps the library */
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

weir_gl_proc real_function(int hook) {
  weir_gl_proc found = known_real(hook);
  if (found != NULL) return found;
  const char* name = kTable[hook].name;
  void* pointer = real_dlsym()(RTLD_NEXT, name);
  /* The program may have opened the library privately, or not at all yet. */
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
  dlerror(); /* clears errors of the lookups above, which the program must not see */
  if (found == kTable[hook].ours) found = NULL;
  if (found != NULL) remember(hook, found);
  return found;
}

weir_gl_proc other_function(_Atomic(weir_gl_proc)* known, int getter, const char* name) {
  weir_gl_proc found = atomic_load_explicit(known, memory_order_acquire);
  if (found != NULL) return found;
  const weir_gl_get_proc get_proc = (weir_gl_get_proc)(void*)real_function(getter);
  if (get_proc != NULL) found = get_proc(name);
  if (found == NULL) *(void**)&found = from_known_library(name); /* EGL before 1.5 */
  dlerror();
  atomic_store_explicit(known, found, memory_order_release);
  return found;
}

weir_gl_proc gl_function(int hook, const void* caller) {
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
    dlclose(handle); /* releases only this reference */
  }
  dlerror(); /* clears errors of the lookups above, which the program must not see */
  errno = error_number;
  weir_gl_proc found = NULL;
  *(void**)&found = pointer;
  if (found != NULL) remember(hook, found);
  return found;
}
