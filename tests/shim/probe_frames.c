/* SPDX-License-Identifier: Apache-2.0
 * Cases of probe.c about frames: swaps of all kinds, and flushes of single-buffered windows. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/shim/probe.h"

void glx_extensions(void) {
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
void parts(void) {
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

void glx_single(void) {
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

void egl_single(void) {
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
void double_buffered(void) {
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
void single_swaps(void) {
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

void egl_errors(void) {
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
void two_flushes(void) {
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
