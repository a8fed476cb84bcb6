/* SPDX-License-Identifier: Apache-2.0
 * A compute program whose need of device memory changes: scenes, each with its own working set, like a flight over a
 * valley. It checks what it computed. Does not use Weir's code.
 *
 *   opencl_scenes SECONDS LOW_MIB HIGH_MIB [SCENES [ROUNDS [FIRST [CHECKS]]]]
 *
 * A frame changes every buffer (16 MiB each) of its scene's working set, with ROUNDS (8) steps per item. SCENES (18)
 * divide the time, starting with FIRST (0); they need LOW_MIB to HIGH_MIB. In every CHECKS (64) frames one buffer is
 * read back and compared, and at the end all are. SIGTERM makes the end come early. Prints frames and MiB a second and
 * "wrong 0". Exits with 1 when a result was wrong, with 2 when a call failed. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kItems = 4 << 20, kBuffersMax = 4096 };

static const char* source =
    "kernel void begin(global uint *a, uint seed) { a[get_global_id(0)] = (uint)get_global_id(0) + seed; }\n"
    "kernel void churn(global uint *a, uint rounds) {\n"
    "  size_t i = get_global_id(0);\n"
    "  uint x = a[i];\n"
    "  for (uint r = 0; r < rounds; ++r) x = x * 1664525u + 1013904223u;\n"
    "  a[i] = x;\n"
    "}\n";

/* The position of each of 18 scenes between the least and the greatest need: long valleys, some peaks. */
static const int kProfile[18] = {10, 20, 35, 30, 60, 90, 100, 70, 40, 25, 15, 0, 20, 50, 85, 95, 45, 5};

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_scenes: %s: error %d\n", what, error);
  exit(2);
}

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile sig_atomic_t asked_to_end;
static void on_signal(int number) {
  (void)number;
  asked_to_end = 1;
}

static cl_command_queue queue;
static cl_mem buffers[kBuffersMax];
static unsigned long churned[kBuffersMax];
static cl_uint* values;

/* The number of items that differ from the result of that many steps of x -> a x + c; the steps are composed by
 * squaring. */
static size_t wrong_in(size_t buffer, cl_uint rounds) {
  check(clEnqueueReadBuffer(queue, buffers[buffer], CL_TRUE, 0, kItems * sizeof *values, values, 0, NULL, NULL),
        "clEnqueueReadBuffer");
  cl_uint a = 1, c = 0, step_a = 1664525u, step_c = 1013904223u;
  for (unsigned long n = churned[buffer] * rounds; n != 0; n >>= 1) {
    if (n & 1) {
      c = c * step_a + step_c;
      a *= step_a;
    }
    step_c += step_c * step_a;
    step_a *= step_a;
  }
  size_t wrong = 0;
  for (size_t i = 0; i < kItems; ++i) wrong += values[i] != a * ((cl_uint)i + (cl_uint)buffer) + c;
  return wrong;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const double seconds = atof(argv[1]);
  const size_t low = (size_t)atol(argv[2]) / 16, high = (size_t)atol(argv[3]) / 16;
  const int scenes = argc > 4 ? atoi(argv[4]) : 18;
  const cl_uint rounds = argc > 5 ? (cl_uint)atol(argv[5]) : 8;
  const int first = argc > 6 ? atoi(argv[6]) : 0;
  const unsigned long checks = argc > 7 ? (unsigned long)atol(argv[7]) : 64;
  if (low < 1 || high < low || high > kBuffersMax || scenes < 1 || checks < 1) return 2;
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  cl_kernel begin = clCreateKernel(program, "begin", &error);
  check(error, "clCreateKernel");
  cl_kernel churn = clCreateKernel(program, "churn", &error);
  check(error, "clCreateKernel");
  check(clSetKernelArg(churn, 1, sizeof rounds, &rounds), "clSetKernelArg");
  values = malloc(kItems * sizeof *values);
  const size_t items = kItems;
  signal(SIGTERM, on_signal);
  printf("ready\n");
  fflush(stdout);

  size_t made = 0, wrong = 0;
  unsigned long frames = 0, touched = 0;
  const double start = now();
  for (double t = 0; t < seconds && !asked_to_end; t = now() - start) {
    const int scene = first + (int)(t / seconds * scenes);
    const size_t works = low + (high - low) * (size_t)kProfile[scene % 18] / 100;
    for (; made < works; ++made) { /* like a program that creates its data at the first use and keeps it */
      const cl_uint seed = (cl_uint)made;
      buffers[made] = clCreateBuffer(context, CL_MEM_READ_WRITE, kItems * sizeof *values, NULL, &error);
      check(error, "clCreateBuffer");
      check(clSetKernelArg(begin, 0, sizeof buffers[made], &buffers[made]), "clSetKernelArg");
      check(clSetKernelArg(begin, 1, sizeof seed, &seed), "clSetKernelArg");
      check(clEnqueueNDRangeKernel(queue, begin, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    }
    for (size_t b = 0; b < works; ++b) {
      check(clSetKernelArg(churn, 0, sizeof buffers[b], &buffers[b]), "clSetKernelArg");
      check(clEnqueueNDRangeKernel(queue, churn, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
      ++churned[b];
    }
    check(clFinish(queue), "clFinish");
    ++frames;
    touched += works;
    if (frames % checks == 0) wrong += wrong_in(frames / checks % works, rounds);
  }
  const double span = now() - start;
  for (size_t b = 0; b < made; ++b) wrong += wrong_in(b, rounds);
  printf("%.3f frames/s, %.1f MiB/s, made %zu MiB, wrong %zu\n", (double)frames / span, (double)touched * 16 / span,
         made * 16, wrong);
  for (size_t b = 0; b < made; ++b) clReleaseMemObject(buffers[b]);
  clReleaseKernel(begin);
  clReleaseKernel(churn);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  free(values);
  return wrong != 0;
}
