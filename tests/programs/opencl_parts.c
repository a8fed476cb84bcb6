/* SPDX-License-Identifier: Apache-2.0
 * A compute program for tests whose one launch uses three buffers at once: it may need more memory than its device has.
 * Checks every item of all three. Does not use Weir's code.
 *
 *   opencl_parts MIB [scatter]     three buffers of MIB; scatter: the kernel writes to indexes that it reads
 *   opencl_parts MIB rounds N      the kernel computes N rounds per item
 *
 * Prints "wrong 0", and with rounds how long the launch took. Exits with 1 when a result was wrong; with 2 when a call
 * failed, and prints the driver's messages about it. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { kReadItems = 4 << 20 };

static const char* source =
    "kernel void number(global uint *a, uint step) { a[get_global_id(0)] = (uint)get_global_id(0) * step + 1; }\n"
    "kernel void blend(global const uint *a, global const uint *b, global uint *c) {\n"
    "  size_t i = get_global_id(0);\n"
    "  c[i] = a[i] * 7u + b[i];\n"
    "}\n"
    "kernel void scatter(global const uint *a, global const uint *b, global uint *c) {\n"
    "  size_t i = get_global_id(0);\n"
    "  c[a[i] % get_global_size(0)] = b[i];\n"
    "}\n"
    "kernel void rounds(global const uint *a, global const uint *b, global uint *c, uint n) {\n"
    "  size_t i = get_global_id(0);\n"
    "  uint x = a[i] * 7u + b[i];\n"
    "  for (uint r = 0; r < n; ++r) x = x * 1664525u + 1013904223u;\n"
    "  c[i] = x;\n"
    "}\n";

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_parts: %s: error %d\n", what, error);
  usleep(300000); /* the driver's messages arrive on a thread of its own */
  exit(2);
}

static void CL_CALLBACK on_notice(const char* text, const void* more, size_t bytes, void* user) {
  (void)more;
  (void)bytes;
  (void)user;
  fprintf(stderr, "the driver says: %s\n", text);
}

static cl_command_queue queue;
static cl_kernel number;
static size_t items;
static cl_uint* values;

static void launch(cl_kernel kernel) {
  cl_event event;
  cl_int status = 0;
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, &event), "clEnqueueNDRangeKernel");
  const cl_int waited = clWaitForEvents(1, &event);
  check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL), "clGetEventInfo");
  check(status < 0 ? status : waited, "the launch");
  clReleaseEvent(event);
}

static cl_mem make_numbers(cl_context context, cl_uint step) {
  cl_int error;
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, items * sizeof *values, NULL, &error);
  check(error, "clCreateBuffer");
  check(clSetKernelArg(number, 0, sizeof buffer, &buffer), "clSetKernelArg");
  check(clSetKernelArg(number, 1, sizeof step, &step), "clSetKernelArg");
  launch(number);
  return buffer;
}

/* The number of items that are not step * i + add. */
static size_t wrong_in(cl_mem buffer, cl_uint step, cl_uint add) {
  size_t wrong = 0;
  for (size_t from = 0; from < items; from += kReadItems) {
    const size_t count = items - from < kReadItems ? items - from : kReadItems;
    check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, from * sizeof *values, count * sizeof *values, values, 0, NULL,
                              NULL),
          "clEnqueueReadBuffer");
    for (size_t i = 0; i < count; ++i) wrong += values[i] != (cl_uint)(from + i) * step + add;
  }
  return wrong;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  items = ((size_t)atol(argv[1]) << 20) / sizeof *values;
  const char* name = argc > 2 ? argv[2] : "blend";
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  cl_context context = clCreateContext(NULL, 1, &device, on_notice, NULL, &error);
  check(error, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  number = clCreateKernel(program, "number", &error);
  check(error, "clCreateKernel");
  cl_kernel kernel = clCreateKernel(program, name, &error);
  check(error, "clCreateKernel");
  values = malloc(kReadItems * sizeof *values);

  const cl_mem buffers[3] = {make_numbers(context, 3), make_numbers(context, 5), make_numbers(context, 11)};
  for (cl_uint i = 0; i < 3; ++i) check(clSetKernelArg(kernel, i, sizeof *buffers, &buffers[i]), "clSetKernelArg");
  cl_uint step = 3 * 7 + 5, add = 7 + 1;
  const cl_uint rounds = argc > 3 ? (cl_uint)atol(argv[3]) : 0;
  if (argc > 3) check(clSetKernelArg(kernel, 3, sizeof rounds, &rounds), "clSetKernelArg");
  for (cl_uint r = 0; r < rounds; ++r) {
    step *= 1664525U;
    add = add * 1664525U + 1013904223U;
  }
  struct timespec begun, ended;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  launch(kernel);
  clock_gettime(CLOCK_MONOTONIC, &ended);
  const size_t wrong = wrong_in(buffers[2], step, add) + wrong_in(buffers[0], 3, 1) + wrong_in(buffers[1], 5, 1);
  printf("wrong %zu\n", wrong);
  if (argc > 3)
    printf("seconds %.3f\n", (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9);

  for (int i = 0; i < 3; ++i) clReleaseMemObject(buffers[i]);
  clReleaseKernel(kernel);
  clReleaseKernel(number);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  free(values);
  return wrong != 0;
}
