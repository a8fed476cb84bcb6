/* SPDX-License-Identifier: Apache-2.0
 * A program that renders and presents nothing: it draws into a framebuffer object, or runs a compute shader.
 *
 *   weir_off_screen [--on glx|egl|pbuffer] [--work draw|compute] [--end END] [--per-end N] [--frames N]
 *                   [--swap-first N] [--interval-ms N]
 *
 *   --on          a GLX context with an unmapped window, an EGL context without a surface, or one with a pbuffer
 *   --end         how a batch ends: readback, flush, finish, fence (and a wait for it), map, texture, query, egl-fence
 *   --per-end     draws or dispatches of a batch
 *   --frames      batches, then it ends; 0: until SIGTERM
 *   --swap-first  glx: frames that it presents before the first batch
 *   --interval-ms sleep after each batch
 *
 * Its last line is "batches N". Status 1: it could not do what was asked; 2: a result was wrong. */
#define GL_GLEXT_PROTOTYPES 1
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
#include <GL/glx.h>
#include <X11/Xlib.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kSize = 64 };
static volatile sig_atomic_t term;
static const char *on = "egl", *work = "draw", *end = "readback";
static int per_end = 1, batches = 100, swap_first = 0, interval_ms = 0;
static Display* display;
static Window window;
static EGLDisplay egl;
static GLuint framebuffer, texture, buffer, query;
static int computes;

static void die(const char* what) {
  fprintf(stderr, "weir_off_screen: %s\n", what);
  exit(1);
}
static void on_term(int number) {
  (void)number;
  term = 1;
}
static int is(const char* a, const char* b) { return strcmp(a, b) == 0; }

static void begin_glx(void) {
  int wanted[] = {GLX_RGBA, GLX_DOUBLEBUFFER, GLX_RED_SIZE, 8, None};
  display = XOpenDisplay(NULL);
  if (display == NULL) die("no display");
  XVisualInfo* visual = glXChooseVisual(display, DefaultScreen(display), wanted);
  if (visual == NULL) die("no visual");
  const Window root = RootWindow(display, visual->screen);
  XSetWindowAttributes attributes = {.colormap = XCreateColormap(display, root, visual->visual, AllocNone)};
  window = XCreateWindow(display, root, 0, 0, kSize, kSize, 0, visual->depth, InputOutput, visual->visual,
                         CWColormap | CWBorderPixel, &attributes);
  GLXContext context = glXCreateContext(display, visual, NULL, True);
  if (context == NULL || !glXMakeCurrent(display, window, context)) die("no context");
}

static void begin_egl(int pbuffer) {
  const EGLint pbuffer_size[] = {EGL_WIDTH, kSize, EGL_HEIGHT, kSize, EGL_NONE};
  const EGLint wanted[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE};
  egl = eglGetPlatformDisplay(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, NULL);
  EGLint count = 0;
  EGLConfig config;
  if (egl == EGL_NO_DISPLAY || !eglInitialize(egl, NULL, NULL) || !eglBindAPI(EGL_OPENGL_API)) die("no EGL");
  if (!eglChooseConfig(egl, wanted, &config, 1, &count) || count == 0) die("no configuration");
  EGLContext context = eglCreateContext(egl, config, EGL_NO_CONTEXT, NULL);
  EGLSurface surface = pbuffer ? eglCreatePbufferSurface(egl, config, pbuffer_size) : EGL_NO_SURFACE;
  if (pbuffer && surface == EGL_NO_SURFACE) die("no pbuffer");
  if (context == EGL_NO_CONTEXT || !eglMakeCurrent(egl, surface, surface, context)) die("no context");
}

static void prepare_compute(void) {
  static const char* const text =
      "#version 430\n"
      "layout(local_size_x = 64) in;\n"
      "layout(std430, binding = 0) buffer Numbers { uint numbers[]; };\n"
      "void main() { numbers[gl_GlobalInvocationID.x] += 1u; }\n";
  GLuint shader = glCreateShader(GL_COMPUTE_SHADER), program = glCreateProgram();
  GLint good = 0;
  glShaderSource(shader, 1, &text, NULL);
  glCompileShader(shader);
  glAttachShader(program, shader);
  glLinkProgram(program);
  glGetProgramiv(program, GL_LINK_STATUS, &good);
  if (!good) die("no compute shader");
  glUseProgram(program);
  glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0, buffer);
}

static void prepare(void) {
  static const unsigned zeros[1024];
  glGenTextures(1, &texture);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, kSize, kSize, 0, GL_RGBA, GL_UNSIGNED_BYTE, NULL);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glGenFramebuffers(1, &framebuffer);
  glBindFramebuffer(GL_FRAMEBUFFER, framebuffer);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D, texture, 0);
  if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) die("no framebuffer");
  glViewport(0, 0, kSize, kSize);
  glGenBuffers(1, &buffer);
  glBindBuffer(GL_SHADER_STORAGE_BUFFER, buffer);
  glBufferData(GL_SHADER_STORAGE_BUFFER, sizeof zeros, zeros, GL_DYNAMIC_READ);
  glGenQueries(1, &query);
  if (computes) prepare_compute();
}

static void render(int batch) {
  if (is(end, "query")) glBeginQuery(GL_SAMPLES_PASSED, query);
  for (int i = 0; i < per_end; ++i) {
    if (computes) {
      glDispatchCompute(16, 1, 1);
      glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT);
    } else {
      glClearColor((GLfloat)(batch % 16) / 15, 0.5f, 0.25f, 1);
      glClear(GL_COLOR_BUFFER_BIT);
      glRectf(-1, -1, -0.5f, -0.5f);
    }
  }
  if (is(end, "query")) glEndQuery(GL_SAMPLES_PASSED);
}

static void wait_for_fence(void) {
  GLsync fence = glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
  while (glClientWaitSync(fence, GL_SYNC_FLUSH_COMMANDS_BIT, 1000000) == GL_TIMEOUT_EXPIRED) {
  }
  glDeleteSync(fence);
}

static void wait_for_egl_fence(void) {
  EGLSync fence = eglCreateSync(egl, EGL_SYNC_FENCE, NULL);
  if (fence == EGL_NO_SYNC) die("no EGL fence");
  eglClientWaitSync(egl, fence, EGL_SYNC_FLUSH_COMMANDS_BIT, EGL_FOREVER);
  eglDestroySync(egl, fence);
}

static void end_batch(void) {
  static unsigned char pixels[kSize * kSize * 4];
  unsigned samples = 0;
  if (is(end, "flush")) glFlush();
  if (is(end, "finish")) glFinish();
  if (is(end, "fence")) wait_for_fence();
  if (is(end, "egl-fence")) wait_for_egl_fence();
  if (is(end, "readback")) glReadPixels(0, 0, kSize, kSize, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
  if (is(end, "texture")) glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, pixels);
  if (is(end, "query")) glGetQueryObjectuiv(query, GL_QUERY_RESULT, &samples);
  if (is(end, "map")) {
    if (glMapBufferRange(GL_SHADER_STORAGE_BUFFER, 0, 4, GL_MAP_READ_BIT) == NULL) die("no map");
    glUnmapBuffer(GL_SHADER_STORAGE_BUFFER);
  }
}

/* Whether GL has computed what was asked for, and its state is the program's. */
static int is_right(int done) {
  unsigned char pixel[4] = {0};
  unsigned number = 0;
  GLint bound = 0;
  glGetIntegerv(GL_FRAMEBUFFER_BINDING, &bound);
  if ((GLuint)bound != framebuffer || glGetError() != GL_NO_ERROR) return 0;
  if (computes) {
    glGetBufferSubData(GL_SHADER_STORAGE_BUFFER, 4, sizeof number, &number);
    return number == (unsigned)(done * per_end);
  }
  glReadPixels(kSize - 1, kSize - 1, 1, 1, GL_RGBA, GL_UNSIGNED_BYTE, pixel);
  return pixel[0] == (done - 1) % 16 * 17 && pixel[1] == 128;
}

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (is(argv[i], "--on")) on = argv[i + 1];
    if (is(argv[i], "--work")) work = argv[i + 1];
    if (is(argv[i], "--end")) end = argv[i + 1];
    if (is(argv[i], "--per-end")) per_end = atoi(argv[i + 1]);
    if (is(argv[i], "--frames")) batches = atoi(argv[i + 1]);
    if (is(argv[i], "--swap-first")) swap_first = atoi(argv[i + 1]);
    if (is(argv[i], "--interval-ms")) interval_ms = atoi(argv[i + 1]);
  }
  computes = is(work, "compute");
  signal(SIGTERM, on_term);
  if (is(on, "glx"))
    begin_glx();
  else
    begin_egl(is(on, "pbuffer"));
  for (int i = 0; i < swap_first; ++i) {
    glClear(GL_COLOR_BUFFER_BIT);
    glXSwapBuffers(display, window);
  }
  prepare();
  int done = 0;
  while (!term && (batches == 0 || done < batches)) {
    render(done++);
    end_batch();
    if (interval_ms > 0) usleep((useconds_t)interval_ms * 1000);
  }
  /* Where nothing is rendered (GALLIUM_NOOP) only errors are looked for. */
  const int right = getenv("GALLIUM_NOOP") != NULL ? glGetError() == GL_NO_ERROR : is_right(done);
  if (!right) fprintf(stderr, "weir_off_screen: a result is wrong\n");
  printf("batches %d\n", done);
  return right ? 0 : 2;
}
