/* SPDX-License-Identifier: Apache-2.0
 * What the cases of probe.c share: finding libraries and functions, and saying what does not hold. */
#pragma once

#include <stdio.h>

typedef void (*proc)(void);
typedef proc (*get_proc_function)(const char*);
typedef void (*swap_function)(void*, unsigned long);

extern int failures;
#define EXPECT(condition)                                                   \
  do {                                                                      \
    if (!(condition)) {                                                     \
      printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                           \
    }                                                                       \
  } while (0)

/* Opens the library that an environment variable names; without it the program ends. */
void* open_library(const char* variable);
int is_in(void* address, const char* library);
#define IS_OURS(address) is_in((void*)(address), "libweir-gl-preload.so")
#define IS_FAKES(address) is_in((void*)(address), "libweir-fake-gl.so")
swap_function swap_of(void* handle);
unsigned long swaps_of(void* handle, const char* counter);
/* A function that is there; without it the program ends. */
void* must_find(void* library, const char* name, int is_ours);
#define FIND(function, library, name, is_ours) *(void**)&(function) = must_find(library, name, is_ours)

typedef int (*glx_make_current_function)(void*, unsigned long, void*);
typedef unsigned (*egl_make_current_function)(void*, void*, void*, void*);
#define CONTEXT_SINGLE_BY_VISUAL ((void*)1)
#define CONTEXT_DOUBLE ((void*)2)
#define CONTEXT_SINGLE ((void*)3)

/* Cases. probe.c: what dlsym and GetProcAddress return. */
void handle(void);
/* probe_frames.c: what is a frame. */
void glx_extensions(void);
void parts(void);
void glx_single(void);
void egl_single(void);
void double_buffered(void);
void single_swaps(void);
void egl_errors(void);
void two_flushes(void);
/* probe_batches.c: programs that present nothing. */
void readbacks(void);
void egl_readbacks(void);
void batch_kinds(void);
void tiny_flushes(void);
void presents_and_readbacks(void);
void stops_presenting(void);
void hidden_window(void);
void leaves_contexts(void);
void writes_only(void);
/* probe_process.c: what the stub leaves as it is in its process. */
void threads(void);
void forks(void);
void error_number(void);
void environment(void);
void descriptors(void);
void signals(void);
void longjmps(void);
void cancels(void);
void ends(void);
void ends_while_waiting(void);
void execs(void);
