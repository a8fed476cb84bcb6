/* SPDX-License-Identifier: Apache-2.0
 * Cases of probe.c about programs that present nothing: each pause of a millisecond makes the next call end a batch. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/shim/probe.h"

typedef void (*read_function)(int, int, int, int, unsigned, unsigned, void*);

static void* gl;
static void surfaceless(void) {
  gl = open_library("WEIR_FAKE_GL");
  egl_make_current_function make_current;
  FIND(make_current, gl, "eglMakeCurrent", 1);
  EXPECT(make_current(NULL, NULL, NULL, CONTEXT_DOUBLE) == 1);
}

static void read_often(read_function read, int times, int pause_us) {
  for (int i = 0; i < times; ++i) {
    int pixel = 0;
    read(i, 1, 1, 1, 0, 0, &pixel);
    EXPECT(pixel == i + 1);
    usleep((useconds_t)pause_us);
  }
}

void readbacks(void) {
  gl = open_library("WEIR_FAKE_GL");
  read_function read;
  FIND(read, gl, "glReadPixels", 1);
  read_often(read, 5, 1000); /* nothing is current */
  glx_make_current_function make_current;
  FIND(make_current, gl, "glXMakeCurrent", 1);
  EXPECT(make_current(NULL, 0, CONTEXT_DOUBLE) == 1);
  read_often(read, 10, 1000);
  EXPECT(swaps_of(gl, "weir_fake_batch_calls") == 15);
}

void egl_readbacks(void) {
  surfaceless();
  get_proc_function get;
  FIND(get, gl, "eglGetProcAddress", 1);
  read_function read;
  *(void**)&read = (void*)get("glReadPixels");
  EXPECT(IS_OURS(read));
  read_often(read, 10, 1000);
}

/* One batch of each call, and none of its arguments or results is changed. */
void batch_kinds(void) {
  surfaceless();
  void (*flush)(void), (*finish)(void), (*wait_gl)(void);
  void (*tex_image)(unsigned, int, unsigned, unsigned, void*);
  void (*sub_data)(unsigned, ptrdiff_t, ptrdiff_t, void*);
  void* (*map)(unsigned, unsigned);
  void* (*map_range)(unsigned, ptrdiff_t, ptrdiff_t, unsigned);
  void* (*fence)(unsigned, unsigned);
  unsigned (*client_wait)(void*, unsigned, uint64_t);
  void (*query)(unsigned, unsigned, unsigned*);
  void (*dispatch)(unsigned, unsigned, unsigned);
  unsigned (*egl_wait)(void);
  void* (*egl_sync)(void*, unsigned, const intptr_t*);
  int (*egl_client_wait)(void*, void*, int, uint64_t);
  FIND(flush, gl, "glFlush", 1);
  FIND(finish, gl, "glFinish", 1);
  FIND(wait_gl, gl, "glXWaitGL", 1);
  FIND(tex_image, gl, "glGetTexImage", 1);
  FIND(sub_data, gl, "glGetBufferSubData", 1);
  FIND(map, gl, "glMapBuffer", 1);
  FIND(map_range, gl, "glMapBufferRange", 1);
  FIND(fence, gl, "glFenceSync", 1);
  FIND(client_wait, gl, "glClientWaitSync", 1);
  FIND(query, gl, "glGetQueryObjectuiv", 1);
  FIND(dispatch, gl, "glDispatchCompute", 1);
  FIND(egl_wait, gl, "eglWaitClient", 1);
  FIND(egl_sync, gl, "eglCreateSync", 1);
  FIND(egl_client_wait, gl, "eglClientWaitSync", 1);
  unsigned number = 0;
  ptrdiff_t size = 0;
  flush(), usleep(3000);
  finish(), usleep(3000);
  wait_gl(), usleep(3000);
  tex_image(1, 2, 3, 44, &number), usleep(3000);
  EXPECT(number == 44);
  sub_data(1, 2, 55, &size), usleep(3000);
  EXPECT(size == 55);
  EXPECT(map(66, 0x88B8) == (void*)66);
  usleep(3000);
  EXPECT(map_range(1, 2, 3, 1) == (void*)6);
  usleep(3000);
  EXPECT(fence(7, 8) == (void*)15);
  usleep(3000);
  EXPECT(client_wait((void*)1, 2, (uint64_t)3) == 6);
  usleep(3000);
  query(77, 0x8866, &number), usleep(3000);
  EXPECT(number == 77);
  dispatch(1, 1, 1), usleep(3000);
  EXPECT(egl_wait() == 1);
  usleep(3000);
  EXPECT(egl_sync(NULL, 88, NULL) == (void*)88);
  usleep(3000);
  EXPECT(egl_client_wait(NULL, NULL, 99, 0) == 99);
}

/* Nothing of these waits for what was drawn. */
void writes_only(void) {
  surfaceless();
  void* (*map)(unsigned, unsigned);
  void* (*map_range)(unsigned, ptrdiff_t, ptrdiff_t, unsigned);
  void (*query)(unsigned, unsigned, unsigned*);
  FIND(map, gl, "glMapBuffer", 1);
  FIND(map_range, gl, "glMapBufferRange", 1);
  FIND(query, gl, "glGetQueryObjectuiv", 1);
  unsigned number = 0;
  for (int i = 0; i < 20; ++i) {
    map(1, 0x88B9);
    map_range(1, 2, 3, 2);
    query(1, 0x8867, &number);
    usleep(1000);
  }
}

void tiny_flushes(void) {
  surfaceless();
  void (*flush)(void);
  FIND(flush, gl, "glFlush", 1);
  for (int i = 0; i < 10000; ++i) flush();
}

/* A game that flushes and reads in the middle of its frames. */
void presents_and_readbacks(void) {
  gl = open_library("WEIR_FAKE_GL");
  glx_make_current_function make_current;
  read_function read;
  void (*flush)(void);
  FIND(make_current, gl, "glXMakeCurrent", 1);
  FIND(read, gl, "glReadPixels", 1);
  FIND(flush, gl, "glFlush", 1);
  const swap_function swap = swap_of(gl);
  EXPECT(make_current(NULL, 7, CONTEXT_DOUBLE) == 1);
  for (int frame = 0; frame < 20; ++frame) {
    read_often(read, 3, 1000);
    for (int i = 0; i < 100; ++i) flush();
    swap(NULL, 7);
  }
}

/* Five frames, then batches for longer than a program is taken for one that presents; then a frame again. */
void stops_presenting(void) {
  gl = open_library("WEIR_FAKE_GL");
  glx_make_current_function make_current;
  read_function read;
  FIND(make_current, gl, "glXMakeCurrent", 1);
  FIND(read, gl, "glReadPixels", 1);
  const swap_function swap = swap_of(gl);
  EXPECT(make_current(NULL, 7, CONTEXT_DOUBLE) == 1);
  for (int frame = 0; frame < 5; ++frame) swap(NULL, 7);
  read_often(read, 1, 1100000);
  read_often(read, 10, 1000);
  swap(NULL, 7);
  read_often(read, 10, 1000);
}

/* It has a window and presents nothing. */
void hidden_window(void) {
  gl = open_library("WEIR_FAKE_GL");
  egl_make_current_function make_current;
  read_function read;
  FIND(make_current, gl, "eglMakeCurrent", 1);
  FIND(read, gl, "glReadPixels", 1);
  EXPECT(make_current(NULL, (void*)7, (void*)7, CONTEXT_DOUBLE) == 1);
  read_often(read, 1, 110000);
  read_often(read, 10, 1000);
}

void leaves_contexts(void) {
  surfaceless();
  glx_make_current_function make_current;
  FIND(make_current, gl, "glXMakeCurrent", 1);
  for (int i = 0; i < 10; ++i) {
    usleep(1000);
    EXPECT(make_current(NULL, 0, i % 2 == 0 ? CONTEXT_SINGLE : CONTEXT_DOUBLE) == 1);
    EXPECT(make_current(NULL, 0, i % 2 == 0 ? CONTEXT_SINGLE : CONTEXT_DOUBLE) == 1); /* the same one: no end */
  }
}
