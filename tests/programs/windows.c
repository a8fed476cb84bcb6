/* SPDX-License-Identifier: Apache-2.0
 * A GLX program with one or more windows. It checks after each frame that GL's state is unchanged.
 *
 *   weir_windows [--windows N] [--threads] [--single] [--frames N] [--interval-ms N] [--term clean|_exit]
 *                [--longest]
 *
 *   --threads      a thread, a display connection and a context for each window; otherwise one thread serves all
 *   --single       single-buffered windows: a frame ends with glFlush, every other one with glFinish
 *   --frames       of each window, then it ends; 0: until SIGTERM
 *   --term         the effect of SIGTERM: a normal end (status 0), or _exit(9) in the handler
 *   --longest      prints "longest frame N.N ms at TIME": the longest time from one frame of a window to its next, and
 *                  when that began, in seconds of the system's clock
 *
 * Its last line is "frames N": the number of frames in all windows. Status 1: it could not do what was asked; 2: GL's
 * state had changed. */
#include <GL/gl.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kWindowsMax = 8, kWidth = 320, kHeight = 240 };

static int windows = 1, threads = 0, single = 0, frames = 100, interval_ms = 0, print_longest = 0;
static volatile sig_atomic_t term;
static _Atomic int shown, wrong;
static pthread_mutex_t longest_lock = PTHREAD_MUTEX_INITIALIZER;
static double longest, longest_at;

typedef struct window {
  Display* display;
  Window id;
  GLXContext context;
  int drawn;
  double last; /* when its last frame ended */
} window;

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void end_frame_of(window* it) {
  const double ended = now();
  if (it->drawn > 1) { /* the first frame waits for the driver's compiler */
    pthread_mutex_lock(&longest_lock);
    if (ended - it->last > longest) longest = ended - it->last, longest_at = it->last;
    pthread_mutex_unlock(&longest_lock);
  }
  it->last = ended;
}

static void die(const char* what) {
  fprintf(stderr, "weir_windows: %s\n", what);
  exit(1);
}

static Display* connect_display(void) {
  Display* display = XOpenDisplay(NULL);
  if (display == NULL) die("no display");
  return display;
}

static window make_window(Display* display, int index) {
  int wanted[] = {GLX_RGBA, GLX_RED_SIZE, 8, GLX_DEPTH_SIZE, 16, single ? None : GLX_DOUBLEBUFFER, None};
  XVisualInfo* visual = glXChooseVisual(display, DefaultScreen(display), wanted);
  int is_double = 0;
  if (visual == NULL) die("no visual");
  glXGetConfig(display, visual, GLX_DOUBLEBUFFER, &is_double);
  if (is_double == single) die("the visual is of the other kind");
  const Window root = RootWindow(display, visual->screen);
  XSetWindowAttributes attributes = {.colormap = XCreateColormap(display, root, visual->visual, AllocNone)};
  window made = {.display = display};
  made.id = XCreateWindow(display, root, 10 + index * (kWidth + 10), 10, kWidth, kHeight, 0, visual->depth, InputOutput,
                          visual->visual, CWColormap | CWBorderPixel, &attributes);
  XMapWindow(display, made.id);
  made.context = glXCreateContext(display, visual, NULL, True);
  if (made.context == NULL) die("no context");
  XFree(visual);
  return made;
}

static int is_close(GLfloat a, GLfloat b) { return a - b < 0.01f && b - a < 0.01f; }

static void draw(window* it) {
  if (!glXMakeCurrent(it->display, it->id, it->context)) die("glXMakeCurrent failed");
  const GLfloat red = (GLfloat)(it->drawn % 10) / 10;
  glViewport(0, 0, kWidth, kHeight);
  glClearColor(red, 0.5f, 0.25f, 1);
  glClear(GL_COLOR_BUFFER_BIT | GL_DEPTH_BUFFER_BIT);
  glBegin(GL_TRIANGLES);
  for (int i = 0; i < 60; ++i) {
    glColor3f(1, red, (GLfloat)i / 60);
    glVertex2f(-1, -1);
    glVertex2f(1, -1 + (GLfloat)i / 30);
    glVertex2f(0, 1);
  }
  glEnd();
  if (!single)
    glXSwapBuffers(it->display, it->id);
  else if (it->drawn % 2 == 0)
    glFlush();
  else
    glFinish();
  ++it->drawn;
  ++shown;

  GLfloat color[4] = {0};
  GLint viewport[4] = {0};
  glGetFloatv(GL_COLOR_CLEAR_VALUE, color);
  glGetIntegerv(GL_VIEWPORT, viewport);
  if (!is_close(color[0], red) || viewport[2] != kWidth || glXGetCurrentContext() != it->context ||
      glXGetCurrentDrawable() != it->id || glGetError() != GL_NO_ERROR)
    wrong = 1;
  end_frame_of(it);
  if (interval_ms > 0) usleep((unsigned)interval_ms * 1000);
}

static int more(const window* it) { return !term && (frames == 0 || it->drawn < frames); }

static void close_window(window* it) {
  glXMakeCurrent(it->display, None, NULL);
  glXDestroyContext(it->display, it->context);
  XDestroyWindow(it->display, it->id);
}

static void* draw_one(void* index) {
  Display* display = connect_display();
  window it = make_window(display, *(int*)index);
  while (more(&it)) draw(&it);
  close_window(&it);
  XCloseDisplay(display);
  return NULL;
}

static void draw_all(void) {
  Display* display = connect_display();
  window all[kWindowsMax];
  for (int i = 0; i < windows; ++i) all[i] = make_window(display, i);
  while (more(&all[0]))
    for (int i = 0; i < windows; ++i) draw(&all[i]);
  for (int i = 0; i < windows; ++i) close_window(&all[i]);
  XCloseDisplay(display);
}

static void end_soon(int number) {
  (void)number;
  term = 1;
}
static void end_at_once(int number) {
  (void)number;
  _exit(9);
}

int main(int argc, char** argv) {
  void (*on_term)(int) = end_soon;
  for (int i = 1; i < argc; ++i) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--threads") == 0)
      threads = 1;
    else if (strcmp(argv[i], "--single") == 0)
      single = 1;
    else if (strcmp(argv[i], "--longest") == 0)
      print_longest = 1;
    else if (strcmp(argv[i], "--windows") == 0)
      windows = atoi(value), ++i;
    else if (strcmp(argv[i], "--frames") == 0)
      frames = atoi(value), ++i;
    else if (strcmp(argv[i], "--interval-ms") == 0)
      interval_ms = atoi(value), ++i;
    else if (strcmp(argv[i], "--term") == 0)
      on_term = strcmp(value, "_exit") == 0 ? end_at_once : end_soon, ++i;
    else
      die("unknown option");
  }
  if (windows < 1 || windows > kWindowsMax) die("--windows: 1 to 8");
  signal(SIGTERM, on_term);
  if (threads) {
    XInitThreads();
    pthread_t all[kWindowsMax];
    int indices[kWindowsMax];
    for (int i = 0; i < windows; ++i) {
      indices[i] = i;
      if (pthread_create(&all[i], NULL, draw_one, &indices[i]) != 0) die("no thread");
    }
    for (int i = 0; i < windows; ++i) pthread_join(all[i], NULL);
  } else {
    draw_all();
  }
  if (print_longest) printf("longest frame %.1f ms at %.3f\n", longest * 1e3, longest_at);
  printf("frames %d\n", shown);
  return wrong ? 2 : 0;
}
