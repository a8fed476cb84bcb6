/* SPDX-License-Identifier: Apache-2.0
 * A GLX program that measures the times that a driver reports: by fences, glFinish, timer queries and swaps.
 *
 *   weir_gl_timing [--frames N] [--interval N]
 *
 *   --frames    of each kind of measurement
 *   --interval  of glXSwapIntervalMESA, for the frames that are swapped
 *
 * It prints one JSON object. Times are in ns. `fence_min`, `finish_min`: the shortest time from before the last draw
 * call to the signal. `elapsed`, `span`: GL_TIME_ELAPSED, and the difference of two GL_TIMESTAMPs around a frame.
 * `swap_seconds`: what --frames frames took until glFinish. `reset`: glGetGraphicsResetStatusARB's answer. Status 1: GL
 * cannot do it; 2: GL reported an error. */
#define GL_GLEXT_PROTOTYPES 1
#include <GL/gl.h>
#include <GL/glext.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int die(const char* what) {
  fprintf(stderr, "weir_gl_timing: %s\n", what);
  exit(1);
}

typedef struct range {
  int64_t min, max;
} range;

static void add(range* all, int64_t value) {
  if (all->max < value) all->max = value;
  if (all->min == 0 || value < all->min) all->min = value;
}

typedef int (*set_interval_function)(unsigned);
typedef GLenum (*reset_status_function)(void);

static Display* display;
static Window window;

static void open_window(void) {
  int wanted[] = {GLX_RGBA, GLX_DOUBLEBUFFER, GLX_RED_SIZE, 8, None};
  display = XOpenDisplay(NULL);
  if (display == NULL) die("no display");
  XVisualInfo* visual = glXChooseVisual(display, DefaultScreen(display), wanted);
  if (visual == NULL) die("no visual");
  const Window root = RootWindow(display, visual->screen);
  XSetWindowAttributes attributes = {.colormap = XCreateColormap(display, root, visual->visual, AllocNone)};
  window = XCreateWindow(display, root, 0, 0, 64, 64, 0, visual->depth, InputOutput, visual->visual,
                         CWColormap | CWBorderPixel, &attributes);
  XMapWindow(display, window);
  GLXContext context = glXCreateContext(display, visual, NULL, True);
  if (context == NULL || !glXMakeCurrent(display, window, context)) die("no context");
}

static void draw(void) {
  glClear(GL_COLOR_BUFFER_BIT);
  glBegin(GL_TRIANGLES);
  glVertex2f(-1, -1);
  glVertex2f(1, -1);
  glVertex2f(0, 1);
  glEnd();
}

/* Waits for the frame, so that the next one begins on an idle device. */
static void end_frame(void) {
  glXSwapBuffers(display, window);
  glFinish();
}

static int64_t unsignaled;

static int64_t measure_fence(void) {
  const int64_t begin = now_ns();
  draw();
  GLsync fence = glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
  glFlush();
  while (glClientWaitSync(fence, GL_SYNC_FLUSH_COMMANDS_BIT, 1000000) == GL_TIMEOUT_EXPIRED) {
  }
  const int64_t took = now_ns() - begin;
  GLint state = 0;
  glGetSynciv(fence, GL_SYNC_STATUS, 1, NULL, &state);
  if (state != GL_SIGNALED) ++unsignaled;
  glDeleteSync(fence);
  end_frame();
  return took;
}

static int64_t measure_finish(void) {
  const int64_t begin = now_ns();
  draw();
  glFinish();
  const int64_t took = now_ns() - begin;
  end_frame();
  return took;
}

static int64_t read_query(GLuint query) {
  GLuint64 value = 0;
  GLint available = 0;
  while (!available) glGetQueryObjectiv(query, GL_QUERY_RESULT_AVAILABLE, &available);
  glGetQueryObjectui64v(query, GL_QUERY_RESULT, &value);
  return (int64_t)value;
}

int main(int argc, char** argv) {
  int frames = 20, interval = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--frames") == 0) frames = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--interval") == 0) interval = atoi(argv[i + 1]);
  }
  open_window();
  const set_interval_function set_interval =
      (set_interval_function)glXGetProcAddress((const GLubyte*)"glXSwapIntervalMESA");
  if (set_interval != NULL) set_interval(0);
  end_frame();

  range fence = {0}, finish = {0}, elapsed = {0}, span = {0};
  GLuint queries[3];
  glGenQueries(3, queries);
  for (int i = 0; i < frames; ++i) {
    add(&fence, measure_fence());
    add(&finish, measure_finish());

    glBeginQuery(GL_TIME_ELAPSED, queries[0]);
    draw();
    glEndQuery(GL_TIME_ELAPSED);
    end_frame();
    add(&elapsed, read_query(queries[0]));

    glQueryCounter(queries[1], GL_TIMESTAMP);
    draw();
    glQueryCounter(queries[2], GL_TIMESTAMP);
    end_frame();
    add(&span, read_query(queries[2]) - read_query(queries[1]));
  }
  glDeleteQueries(3, queries);

  if (set_interval != NULL) set_interval((unsigned)interval);
  const int64_t begin = now_ns();
  for (int i = 0; i < frames; ++i) {
    draw();
    glXSwapBuffers(display, window);
  }
  glFinish();
  const double swap_seconds = (double)(now_ns() - begin) / 1e9;
  if (glGetError() != GL_NO_ERROR) return 2;
  const reset_status_function reset_status =
      (reset_status_function)glXGetProcAddress((const GLubyte*)"glGetGraphicsResetStatusARB");
  printf(
      "{\"renderer\": \"%s\", \"fence_min\": %lld, \"finish_min\": %lld, \"elapsed\": [%lld, %lld], "
      "\"span\": [%lld, %lld], \"unsignaled_after_wait\": %lld, \"frames\": %d, \"swap_seconds\": %f, "
      "\"reset\": %u}\n",
      (const char*)glGetString(GL_RENDERER), (long long)fence.min, (long long)finish.min, (long long)elapsed.min,
      (long long)elapsed.max, (long long)span.min, (long long)span.max, (long long)unsignaled, frames, swap_seconds,
      reset_status != NULL ? reset_status() : 0);
  return 0;
}
