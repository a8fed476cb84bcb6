/* SPDX-License-Identifier: Apache-2.0
 * A CUDA program for tests: launches a kernel repeatedly and checks what it computed. Does not use Weir's code, and no
 * header of NVIDIA's.
 *
 *   cuda_loop SECONDS KERNEL [AHEAD [MODE [ITEMS]]]
 *
 * AHEAD kernels (1) are launched between two synchronizes, on ITEMS numbers (1024). MODE is one or more of these words,
 * with commas between them:
 *     plain     the default stream; functions by dlsym
 *     graph     the AHEAD launches are captured once and launched as a graph, in a stream of its own
 *     default   with `graph`: the graph is launched in the default stream
 *     streams   two streams take turns and wait for each other's events
 *     ptsz      the thread's default stream: functions whose names end in _ptsz and _ptds
 *     getproc   functions by cuGetProcAddress_v2, with the flag of the thread's default stream where `ptsz` is a word
 *
 * Compiled with CUDA_LOOP_LINKED, the program does not open the driver: it is linked against it.
 *
 * The kernels are in the image that CUDA_LOOP_IMAGE names, else in ../lib/test/cuda_image.so from the program's folder.
 * One launch comes before those that are counted and timed. SIGTERM makes the end come early. Prints "ready on DEVICE",
 * kernels a second with "wrong 0", and the time of the launches by events. Exits with 1 when a result was wrong, with 2
 * when a call failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void* handle;
typedef unsigned long long device_pointer;

/* Each function: name, name's ending with per-thread default streams, parameters. */
#define FUNCTIONS(F)                                                            \
  F(cuInit, "", "", (unsigned))                                                 \
  F(cuGetErrorName, "", "", (int, const char**))                                \
  F(cuDeviceGet, "", "", (int*, int))                                           \
  F(cuDeviceGetName, "", "", (char*, int, int))                                 \
  F(cuDevicePrimaryCtxRetain, "", "", (handle*, int))                           \
  F(cuDevicePrimaryCtxRelease, "_v2", "", (int))                                \
  F(cuCtxSetCurrent, "", "", (handle))                                          \
  F(cuModuleLoad, "", "", (handle*, const char*))                               \
  F(cuModuleGetFunction, "", "", (handle*, handle, const char*))                \
  F(cuModuleUnload, "", "", (handle))                                           \
  F(cuMemAlloc, "_v2", "", (device_pointer*, size_t))                           \
  F(cuMemFree, "_v2", "", (device_pointer))                                     \
  F(cuMemcpyHtoD, "_v2", "_ptds", (device_pointer, const void*, size_t))        \
  F(cuMemcpyDtoH, "_v2", "_ptds", (void*, device_pointer, size_t))              \
  F(cuStreamCreate, "", "", (handle*, unsigned))                                \
  F(cuStreamDestroy, "_v2", "", (handle))                                       \
  F(cuStreamSynchronize, "", "_ptsz", (handle))                                 \
  F(cuStreamWaitEvent, "", "_ptsz", (handle, handle, unsigned))                 \
  F(cuStreamBeginCapture, "_v2", "_ptsz", (handle, int))                        \
  F(cuStreamEndCapture, "", "_ptsz", (handle, handle*))                         \
  F(cuEventCreate, "", "", (handle*, unsigned))                                 \
  F(cuEventDestroy, "_v2", "", (handle))                                        \
  F(cuEventRecord, "", "_ptsz", (handle, handle))                               \
  F(cuEventElapsedTime, "", "", (float*, handle, handle))                       \
  F(cuGraphInstantiateWithFlags, "", "", (handle*, handle, unsigned long long)) \
  F(cuGraphLaunch, "", "_ptsz", (handle, handle))                               \
  F(cuGraphDestroy, "", "", (handle))                                           \
  F(cuGraphExecDestroy, "", "", (handle))                                       \
  F(cuLaunchKernel, "", "_ptsz",                                                \
    (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void**, void**))

#define DECLARE(name, version, ending, parameters) int(*name) parameters;
static struct { FUNCTIONS(DECLARE) } driver;
#undef DECLARE

static void check(int error, const char* what) {
  const char* name = "?";
  if (error == 0) return;
  if (driver.cuGetErrorName(error, &name) != 0) name = "?";
  fprintf(stderr, "cuda_loop: %s: error %d (%s)\n", what, error, name);
  exit(2);
}
#define CHECK(function, ...) check(driver.function(__VA_ARGS__), #function)

#ifdef CUDA_LOOP_LINKED
#define DECLARE_LINKED(name, version, ending, parameters)     \
  extern int linked_##name parameters __asm__(#name version); \
  extern int linked_##name##_of_thread parameters __asm__(#name version ending);
FUNCTIONS(DECLARE_LINKED)
#undef DECLARE_LINKED

static void find_functions(int per_thread, int by_address) {
  if (by_address) {
    fprintf(stderr, "cuda_loop: this program is linked against the driver and asks for no address\n");
    exit(2);
  }
#define FIND(name, version, ending, parameters) driver.name = per_thread ? linked_##name##_of_thread : linked_##name;
  FUNCTIONS(FIND)
#undef FIND
}
#else
static void* find(void* library, const char* name) {
  void* function = dlsym(library, name);
  if (function != NULL) return function;
  fprintf(stderr, "cuda_loop: libcuda.so.1 has no function %s\n", name);
  exit(2);
}

typedef int (*get_address)(const char*, void**, int, unsigned long long, int*);

static void* ask(get_address get, const char* name, int per_thread) {
  const unsigned long long per_thread_default_stream = 2;
  void* function = NULL;
  int status = 0;
  const int error = get(name, &function, 12000, per_thread ? per_thread_default_stream : 0, &status);
  if (error == 0 && status == 0 && function != NULL) return function;
  fprintf(stderr, "cuda_loop: cuGetProcAddress_v2: %s: error %d, status %d\n", name, error, status);
  exit(2);
}

static void find_functions(int per_thread, int by_address) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "cuda_loop: %s\n", dlerror());
    exit(2);
  }
  get_address get = NULL;
  if (by_address) *(void**)&get = find(library, "cuGetProcAddress_v2");
#define FIND(name, version, ending, parameters)                              \
  *(void**)&driver.name = by_address   ? ask(get, #name, per_thread)         \
                          : per_thread ? find(library, #name version ending) \
                                       : find(library, #name version);
  FUNCTIONS(FIND)
#undef FIND
}
#endif

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const char* image(void) {
  static char path[4096];
  const char* named = getenv("CUDA_LOOP_IMAGE");
  if (named != NULL) return named;
  const char* const beside = "../lib/test/cuda_image.so";
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - strlen(beside) - 1);
  path[length > 0 ? length : 0] = '\0';
  char* last = strrchr(path, '/');
  strcpy(last != NULL ? last + 1 : path, beside);
  return path;
}

static volatile sig_atomic_t over;

static void on_signal(int number) {
  (void)number;
  over = 1;
}

/* Whether a word is one of those that commas separate. */
static int is_word_of(const char* words, const char* word) {
  const size_t length = strlen(word);
  for (; words != NULL; words = strchr(words, ',')) {
    if (*words == ',') ++words;
    if (strncmp(words, word, length) == 0 && (words[length] == ',' || words[length] == '\0')) return 1;
  }
  return 0;
}

static handle kernel;
static device_pointer buffer;
static unsigned items = 1024;

static void launch(handle stream) {
  const unsigned block = 256;
  void* parameters[] = {&buffer, &items};
  CHECK(cuLaunchKernel, kernel, (items + block - 1) / block, 1, 1, block, 1, 1, 0, stream, parameters, NULL);
}

static int graph_mode, stream_mode;
/* NULL in `streams` is the default stream. */
static handle module, work, streams[2], recorded_in, turns[2], begin, end;

static void make_objects(int device, const char* name) {
  handle context;
  CHECK(cuDevicePrimaryCtxRetain, &context, device);
  CHECK(cuCtxSetCurrent, context);
  CHECK(cuModuleLoad, &module, image());
  CHECK(cuModuleGetFunction, &kernel, module, name);
}

static void make_buffer(const unsigned* values) {
  CHECK(cuMemAlloc, &buffer, items * sizeof *values);
  CHECK(cuMemcpyHtoD, buffer, values, items * sizeof *values);
}

static void make_streams(int in_default_stream) {
  CHECK(cuEventCreate, &begin, 0);
  CHECK(cuEventCreate, &end, 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(cuEventCreate, &turns[i], 0);
    if (!in_default_stream) CHECK(cuStreamCreate, &streams[i], 1);
  }
}

static void make_graph(int ahead) {
  handle graph;
  CHECK(cuStreamCreate, &recorded_in, 1);
  CHECK(cuStreamBeginCapture, recorded_in, 0);
  for (int i = 0; i < ahead; ++i) launch(recorded_in);
  CHECK(cuStreamEndCapture, recorded_in, &graph);
  CHECK(cuGraphInstantiateWithFlags, &work, graph, 0);
  CHECK(cuGraphDestroy, graph);
}

static void release_objects(int device) {
  if (work != NULL) CHECK(cuGraphExecDestroy, work);
  if (recorded_in != NULL) CHECK(cuStreamDestroy, recorded_in);
  for (int i = 0; i < 2; ++i) {
    CHECK(cuEventDestroy, turns[i]);
    if (streams[i] != NULL) CHECK(cuStreamDestroy, streams[i]);
  }
  CHECK(cuEventDestroy, begin);
  CHECK(cuEventDestroy, end);
  CHECK(cuMemFree, buffer);
  CHECK(cuModuleUnload, module);
  CHECK(cuDevicePrimaryCtxRelease, device);
}

/* Launches for that long, and sets how long it took. Returns the number of launches. */
static unsigned long run(double seconds, int ahead, double* span) {
  /* One launch goes before those that are timed: while it runs, the others are enqueued. */
  unsigned long kernels = 1;
  handle last = streams[0];
  launch(streams[0]);
  CHECK(cuEventRecord, begin, streams[0]);
  if (stream_mode) CHECK(cuEventRecord, turns[0], streams[0]);
  const double start = now();
  do {
    if (graph_mode) CHECK(cuGraphLaunch, work, streams[0]);
    for (int i = 0; i < ahead; ++i, ++kernels) {
      if (graph_mode) continue;
      const int turn = stream_mode ? (int)(kernels % 2) : 0;
      if (stream_mode) CHECK(cuStreamWaitEvent, streams[turn], turns[1 - turn], 0);
      launch(streams[turn]);
      if (stream_mode) CHECK(cuEventRecord, turns[turn], streams[turn]);
      last = streams[turn];
    }
    CHECK(cuEventRecord, end, last);
    CHECK(cuStreamSynchronize, last);
  } while (now() - start < seconds && !over);
  *span = now() - start;
  return kernels;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const double seconds = atof(argv[1]);
  const int ahead = argc > 3 ? atoi(argv[3]) : 1;
  const char* mode = argc > 4 ? argv[4] : "plain";
  if (argc > 5) items = (unsigned)strtoul(argv[5], NULL, 10);
  graph_mode = is_word_of(mode, "graph");
  stream_mode = is_word_of(mode, "streams");
  find_functions(is_word_of(mode, "ptsz"), is_word_of(mode, "getproc"));
  signal(SIGTERM, on_signal);

  int device = 0;
  char name[256];
  CHECK(cuInit, 0);
  CHECK(cuDeviceGet, &device, 0);
  CHECK(cuDeviceGetName, name, sizeof name, device);
  make_objects(device, argv[2]);
  unsigned* values = calloc(items, sizeof *values);
  if (values == NULL) return 2;
  make_buffer(values);
  make_streams(is_word_of(mode, "default") || !(graph_mode || stream_mode));
  if (graph_mode) make_graph(ahead);
  printf("ready on %s\n", name);
  fflush(stdout);

  double span = 0;
  const unsigned long kernels = run(seconds, ahead, &span);
  float elapsed_ms = 0;
  CHECK(cuEventElapsedTime, &elapsed_ms, begin, end);

  CHECK(cuMemcpyDtoH, values, buffer, items * sizeof *values);
  size_t wrong = 0;
  for (unsigned i = 0; i < items; ++i) wrong += values[i] != (unsigned)kernels;
  printf("%.1f kernels/s, wrong %zu\n", (double)(kernels - 1) / span, wrong);
  printf("%lu kernels in %.3f ms by events\n", kernels - 1, (double)elapsed_ms);
  release_objects(device);
  free(values);
  return wrong != 0;
}
