/* SPDX-License-Identifier: Apache-2.0
 * Times the most frequent operations of OpenCL programs on the first platform that the loader finds;
 * scripts/bench-opencl compares two platforms. Prints "NAME VALUE" on each line; a value is in nanoseconds for one
 * call, the median of several rounds.
 *
 *   opencl_speed [--mib N] [--calls N] [WORD...]    only operations with a WORD in their names; large: N MiB (256);
 *                                                   at most N calls per round */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRounds = 9 };
static cl_context context;
static cl_command_queue queue;
static cl_kernel kernel;
static char* host;
static size_t big = (size_t)256 << 20;

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_speed: %s: error %d\n", what, error);
  exit(2);
}

static double now_ns(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static int words_count, calls_max = 1 << 30;
static char** words;

static int wanted(const char* name) {
  for (int i = 0; i < words_count; ++i)
    if (strstr(name, words[i]) != NULL) return 1;
  return words_count == 0;
}

/* Calls `round(n)` several times; each call reports the time that n operations took. */
static void measure(const char* name, int n, void (*round)(int n)) {
  double times[kRounds];
  if (!wanted(name)) return;
  if (n > calls_max) n = calls_max;
  round(n / 4 + 1);
  for (int i = 0; i < kRounds; ++i) {
    const double start = now_ns();
    round(n);
    times[i] = (now_ns() - start) / n;
  }
  qsort(times, kRounds, sizeof *times, by_value);
  printf("%s %.0f\n", name, times[kRounds / 2]);
  fflush(stdout);
}

static cl_mem small, large;
static size_t items = 64;

static void launch(void) {
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
}
static void pipelined(int n) {
  for (int i = 0; i < n; ++i) launch();
  clFinish(queue);
}
static void kernel_and_finish(int n) {
  for (int i = 0; i < n; ++i) {
    launch();
    clFinish(queue);
  }
}
static void write_small(int n) {
  for (int i = 0; i < n; ++i) check(clEnqueueWriteBuffer(queue, small, CL_TRUE, 0, 4096, host, 0, NULL, NULL), "write");
}
static void read_small(int n) {
  for (int i = 0; i < n; ++i) check(clEnqueueReadBuffer(queue, small, CL_TRUE, 0, 4096, host, 0, NULL, NULL), "read");
}
static void write_kernel_read(int n) {
  for (int i = 0; i < n; ++i) {
    check(clEnqueueWriteBuffer(queue, small, CL_FALSE, 0, 4096, host, 0, NULL, NULL), "write");
    launch();
    check(clEnqueueReadBuffer(queue, small, CL_TRUE, 0, 4096, host, 0, NULL, NULL), "read");
  }
}
static void write_big(int n) {
  for (int i = 0; i < n; ++i) check(clEnqueueWriteBuffer(queue, large, CL_TRUE, 0, big, host, 0, NULL, NULL), "write");
}
static void read_big(int n) {
  for (int i = 0; i < n; ++i) check(clEnqueueReadBuffer(queue, large, CL_TRUE, 0, big, host, 0, NULL, NULL), "read");
}
static void map_big(int n) {
  for (int i = 0; i < n; ++i) {
    cl_int error;
    char* at = clEnqueueMapBuffer(queue, large, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, (size_t)4 << 20, 0, NULL, NULL,
                                  &error);
    check(error, "map");
    at[i % 4096] = 1;
    check(clEnqueueUnmapMemObject(queue, large, at, 0, NULL, NULL), "unmap");
    clFinish(queue);
  }
}
static void job(int n) {
  for (int i = 0; i < n; ++i) {
    cl_int error;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
    check(error, "clCreateBuffer");
    check(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, 4096, host, 0, NULL, NULL), "write");
    clFinish(queue);
    clReleaseMemObject(buffer);
  }
}
static void whole_job(int n) {
  for (int i = 0; i < n; ++i) {
    cl_int error;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
    check(error, "clCreateBuffer");
    check(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, 4096, host, 0, NULL, NULL), "write");
    check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
    launch();
    check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 4096, host, 0, NULL, NULL), "read");
    clReleaseMemObject(buffer);
  }
  check(clSetKernelArg(kernel, 0, sizeof small, &small), "clSetKernelArg");
}
static void set_arg(int n) {
  for (int i = 0; i < n; ++i) check(clSetKernelArg(kernel, 0, sizeof small, i % 2 ? &small : &large), "clSetKernelArg");
  check(clSetKernelArg(kernel, 0, sizeof small, &small), "clSetKernelArg");
}
static cl_device_id device;
static void device_info(int n) {
  cl_uint units = 0;
  for (int i = 0; i < n; ++i) clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
}

int main(int argc, char** argv) {
  for (; argc > 2 && strncmp(argv[1], "--", 2) == 0; argc -= 2, argv += 2) {
    if (strcmp(argv[1], "--mib") == 0)
      big = (size_t)atoi(argv[2]) << 20;
    else
      calls_max = atoi(argv[2]);
  }
  words = argv + 1;
  words_count = argc - 1;
  cl_platform_id platform;
  cl_int error;
  const char* source = "kernel void touch(global int* a) { a[get_global_id(0)] += 1; }";
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  kernel = clCreateKernel(program, "touch", &error);
  check(error, "clCreateKernel");
  small = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
  check(error, "clCreateBuffer");
  large = clCreateBuffer(context, CL_MEM_READ_WRITE, big, NULL, &error);
  check(error, "clCreateBuffer");
  host = malloc(big);
  memset(host, 1, big);
  check(clSetKernelArg(kernel, 0, sizeof small, &small), "clSetKernelArg");

  measure("kernel, pipelined", 20000, pipelined);
  measure("kernel and finish", 1000, kernel_and_finish);
  measure("write 4 KiB", 1000, write_small);
  measure("read 4 KiB", 1000, read_small);
  measure("write, kernel, read 4 KiB", 1000, write_kernel_read);
  char name[32];
  snprintf(name, sizeof name, "write %zu MiB", big >> 20);
  measure(name, 1, write_big);
  snprintf(name, sizeof name, "read %zu MiB", big >> 20);
  measure(name, 1, read_big);
  measure("map, unmap, finish", 1000, map_big);
  measure("create, write, finish, release", 1000, job);
  measure("create, write, kernel, read, release", 1000, whole_job);
  measure("set argument", 100000, set_arg);
  measure("device info", 100000, device_info);
  return 0;
}
