/* SPDX-License-Identifier: Apache-2.0
 * A compute program for tests: runs a kernel repeatedly and checks what it computed. Does not use Weir's code.
 *
 *   opencl_loop SECONDS ITEMS ROUNDS [AHEAD [REST_MS [MARK [WHOLE]]]]
 *
 *                                                               AHEAD kernels are enqueued between two finishes (1),
 *                                                               after each finish it rests (0 ms), and with a MARK of
 *                                                               1 a marker is enqueued before it; with a WHOLE of
 *                                                               1 launches cannot be cut into smaller ones
 *
 * SIGTERM makes the end come early. Prints kernels a second and "wrong 0". Exits with 1 when a result was wrong, with 2
 * when a call failed. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char* source =
    "kernel void churn(global uint *a, uint rounds) {\n"
    "  size_t i = get_global_id(0);\n"
    "  uint x = a[i];\n"
    "  for (uint r = 0; r < rounds; ++r) x = x * 1664525u + 1013904223u;\n"
    "  a[i] = x;\n"
    "}\n";

static volatile sig_atomic_t over;

static void on_signal(int number) {
  (void)number;
  over = 1;
}

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_loop: %s: error %d\n", what, error);
  exit(2);
}

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const double seconds = atof(argv[1]);
  const size_t items = (size_t)atol(argv[2]);
  const cl_uint rounds = (cl_uint)atol(argv[3]);
  const int ahead = argc > 4 ? atoi(argv[4]) : 1;
  const long rest_us = argc > 5 ? atol(argv[5]) * 1000 : 0;
  const int mark = argc > 6 && atoi(argv[6]) != 0;
  /* A kernel that asks for the size of its launch would notice cuts. */
  const char* options = argc > 7 && atoi(argv[7]) != 0 ? "-D SIZE=get_global_size" : NULL;
  const struct timespec rest = {rest_us / 1000000, rest_us % 1000000 * 1000};
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, options, NULL, NULL), "clBuildProgram");
  cl_kernel kernel = clCreateKernel(program, "churn", &error);
  check(error, "clCreateKernel");
  cl_uint* values = malloc(items * sizeof *values);
  for (size_t i = 0; i < items; ++i) values[i] = (cl_uint)i;
  cl_mem buffer =
      clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, items * sizeof *values, values, &error);
  check(error, "clCreateBuffer");
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
  check(clSetKernelArg(kernel, 1, sizeof rounds, &rounds), "clSetKernelArg");
  check(clFinish(queue), "clFinish");
  signal(SIGTERM, on_signal);
  printf("ready\n");
  fflush(stdout);

  const double start = now();
  unsigned long kernels = 0;
  do {
    for (int i = 0; i < ahead; ++i, ++kernels)
      check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    if (mark) check(clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL), "clEnqueueMarkerWithWaitList");
    check(clFinish(queue), "clFinish");
    if (rest_us > 0) nanosleep(&rest, NULL);
  } while (!over && now() - start < seconds);
  const double span = now() - start;

  check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, items * sizeof *values, values, 0, NULL, NULL),
        "clEnqueueReadBuffer");
  /* Composes rounds * kernels steps of x -> a x + c by squaring. */
  cl_uint a = 1, c = 0, step_a = 1664525u, step_c = 1013904223u;
  for (unsigned long n = kernels * rounds; n != 0; n >>= 1) {
    if (n & 1) {
      c = c * step_a + step_c;
      a *= step_a;
    }
    step_c += step_c * step_a;
    step_a *= step_a;
  }
  size_t wrong = 0;
  for (size_t i = 0; i < items; ++i) wrong += values[i] != a * (cl_uint)i + c;
  printf("%.1f kernels/s, wrong %zu\n", (double)kernels / span, wrong);
  clReleaseMemObject(buffer);
  clReleaseKernel(kernel);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  free(values);
  return wrong != 0;
}
