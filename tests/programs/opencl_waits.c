/* SPDX-License-Identifier: Apache-2.0
 * A compute program that measures how long its calls take: it writes numbers, computes on them, reads and checks them,
 * again and again. Does not use Weir's code.
 *
 *   opencl_waits SECONDS ITEMS SEED [REST_MS]
 *
 * It rests between two rounds (0 ms).
 * Prints "ready" after the first round, and at the end "rounds N, wrong N, longest N.N ms at TIME": the longest round
 * and when it began, in seconds of the system's clock. Exits with 1 when a number was wrong, with 2 when a call failed.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char* source =
    "kernel void stir(global uint *a, uint seed) {\n"
    "  size_t i = get_global_id(0);\n"
    "  a[i] = (a[i] ^ seed) * 1664525u + 1013904223u;\n"
    "}\n";

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_waits: %s: error %d at %.3f\n", what, error, now());
  exit(2);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const double seconds = atof(argv[1]);
  const size_t items = (size_t)atol(argv[2]), size = items * sizeof(cl_uint);
  cl_uint seed = (cl_uint)atol(argv[3]);
  const long rest_us = argc > 4 ? atol(argv[4]) * 1000 : 0;
  const struct timespec rest = {rest_us / 1000000, rest_us % 1000000 * 1000};
  cl_uint* values = malloc(size);
  if (values == NULL) return 2;
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
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  cl_kernel kernel = clCreateKernel(program, "stir", &error);
  check(error, "clCreateKernel");
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);
  check(error, "clCreateBuffer");
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");

  unsigned long rounds = 0, wrong = 0;
  double longest = 0, longest_at = 0;
  const double end = now() + seconds;
  for (double began = now(); began < end; began = now(), ++rounds) {
    seed = seed * 1664525u + 1013904223u;
    for (size_t i = 0; i < items; ++i) values[i] = (cl_uint)i + seed;
    check(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, size, values, 0, NULL, NULL), "clEnqueueWriteBuffer");
    check(clSetKernelArg(kernel, 1, sizeof seed, &seed), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, values, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (size_t i = 0; i < items; ++i) wrong += values[i] != (((cl_uint)i + seed) ^ seed) * 1664525u + 1013904223u;
    const double took = now() - began;
    if (rounds == 0) {  // the driver compiles the kernel for it
      printf("ready\n");
      fflush(stdout);
    } else if (took > longest) {
      longest = took, longest_at = began;
    }
    if (rest_us > 0) nanosleep(&rest, NULL);
  }
  printf("rounds %lu, wrong %lu, longest %.1f ms at %.3f\n", rounds, wrong, longest * 1e3, longest_at);
  clReleaseMemObject(buffer);
  clReleaseKernel(kernel);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  free(values);
  return wrong != 0;
}
