/* SPDX-License-Identifier: Apache-2.0
 * A CUDA program for tests: launches a kernel repeatedly and checks what it computed. Does not use Weir's code, and no
 * header of NVIDIA's.
 *
 *   cuda_loop SECONDS KERNEL [AHEAD [MODE [ITEMS]]]
 *
 * AHEAD kernels (1) are launched between two synchronizes, on ITEMS numbers (1024). MODE:
 *     plain     the default stream; functions by dlsym
 *     graph     the AHEAD launches are captured once and launched as a graph
 *     streams   two streams take turns and wait for each other's events
 *     ptsz      the thread's default stream: functions whose names end in _ptsz and _ptds
 *     getproc   as plain; functions by cuGetProcAddress_v2
 *
 * The kernels are in the image that CUDA_LOOP_IMAGE names, else in ../lib/test/cuda_image.so from the program's folder.
 * One launch comes before those that are counted and timed. Prints "ready on DEVICE", kernels a second with "wrong 0",
 * and the time of the launches by events. Exits with 1 when a result was wrong, with 2 when a call failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
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

#define DECLARE(name, version, ending, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)
#undef DECLARE

static void check(int error, const char* what) {
  const char* name = "?";
  if (error == 0) return;
  if (cuGetErrorName(error, &name) != 0) name = "?";
  fprintf(stderr, "cuda_loop: %s: error %d (%s)\n", what, error, name);
  exit(2);
}
#define CHECK(function, ...) check(function(__VA_ARGS__), #function)

static void* find(void* driver, const char* name) {
  void* function = dlsym(driver, name);
  if (function != NULL) return function;
  fprintf(stderr, "cuda_loop: libcuda.so.1 has no function %s\n", name);
  exit(2);
}

static void* ask(int (*get)(const char*, void**, int, unsigned long long, int*), const char* name) {
  void* function = NULL;
  int status = 0;
  const int error = get(name, &function, 12000, 0, &status);
  if (error == 0 && status == 0 && function != NULL) return function;
  fprintf(stderr, "cuda_loop: cuGetProcAddress_v2: %s: error %d, status %d\n", name, error, status);
  exit(2);
}

static void find_functions(int per_thread, int by_address) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) {
    fprintf(stderr, "cuda_loop: %s\n", dlerror());
    exit(2);
  }
  int (*get)(const char*, void**, int, unsigned long long, int*) = NULL;
  if (by_address) *(void**)&get = find(driver, "cuGetProcAddress_v2");
#define FIND(name, version, ending, parameters)                      \
  *(void**)&name = by_address   ? ask(get, #name)                    \
                   : per_thread ? find(driver, #name version ending) \
                                : find(driver, #name version);
  FUNCTIONS(FIND)
#undef FIND
}

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

static handle kernel;
static device_pointer buffer;
static unsigned items = 1024;

static void launch(handle stream) {
  const unsigned block = 256;
  void* parameters[] = {&buffer, &items};
  CHECK(cuLaunchKernel, kernel, (items + block - 1) / block, 1, 1, block, 1, 1, 0, stream, parameters, NULL);
}

static int graph_mode, stream_mode;
static handle module, work, streams[2], turns[2], begin, end;

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

static void make_streams(void) {
  CHECK(cuEventCreate, &begin, 0);
  CHECK(cuEventCreate, &end, 0);
  for (int i = 0; i < 2; ++i) {
    CHECK(cuEventCreate, &turns[i], 0);
    if (graph_mode || stream_mode) CHECK(cuStreamCreate, &streams[i], 1);
  }
}

static void make_graph(int ahead) {
  handle graph;
  CHECK(cuStreamBeginCapture, streams[0], 0);
  for (int i = 0; i < ahead; ++i) launch(streams[0]);
  CHECK(cuStreamEndCapture, streams[0], &graph);
  CHECK(cuGraphInstantiateWithFlags, &work, graph, 0);
  CHECK(cuGraphDestroy, graph);
}

static void release_objects(int device) {
  if (work != NULL) CHECK(cuGraphExecDestroy, work);
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
  } while (now() - start < seconds);
  *span = now() - start;
  return kernels;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const double seconds = atof(argv[1]);
  const int ahead = argc > 3 ? atoi(argv[3]) : 1;
  const char* mode = argc > 4 ? argv[4] : "plain";
  if (argc > 5) items = (unsigned)strtoul(argv[5], NULL, 10);
  graph_mode = strcmp(mode, "graph") == 0;
  stream_mode = strcmp(mode, "streams") == 0;
  find_functions(strcmp(mode, "ptsz") == 0, strcmp(mode, "getproc") == 0);

  int device = 0;
  char name[256];
  CHECK(cuInit, 0);
  CHECK(cuDeviceGet, &device, 0);
  CHECK(cuDeviceGetName, name, sizeof name, device);
  make_objects(device, argv[2]);
  unsigned* values = calloc(items, sizeof *values);
  if (values == NULL) return 2;
  make_buffer(values);
  make_streams();
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
