/* SPDX-License-Identifier: Apache-2.0
 * A compute program that forks while its device works, without an exec. The child uses what it has inherited.
 *
 *   opencl_fork [stay]
 *
 * Prints the child's errors, then what the parent has computed since: "child -5 -5 ..." and "wrong 0". With `stay` the
 * child prints and waits until it is killed, and the parent ends at once. Exits with 1 when a result was wrong, with 2
 * when a call of the parent's failed, with 3 when the child did not end well. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kItems = 1 << 14, kAhead = 64 };

static const char* source = "kernel void churn(global uint *a) { a[get_global_id(0)] += 1; }\n";

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_fork: %s: error %d\n", what, error);
  exit(2);
}

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static cl_kernel kernel;
static cl_mem buffer;
static cl_uint values[kItems];

static void launch(void) {
  const size_t items = kItems;
  for (int i = 0; i < kAhead; ++i)
    check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
  check(clFlush(queue), "clFlush");
}

static void use_in_child(void) {
  const size_t items = kItems;
  cl_int context_error = 0, buffer_error = 0, event_error = 0;
  cl_ulong size = 0;
  const cl_int launched = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
  const cl_int finished = clFinish(queue);
  const cl_int read = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
  const cl_int asked = clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof size, &size, NULL);
  const int made = clCreateContext(NULL, 1, &device, NULL, NULL, &context_error) != NULL ||
                   clCreateBuffer(context, 0, 64, NULL, &buffer_error) != NULL ||
                   clCreateUserEvent(context, &event_error) != NULL;
  clReleaseMemObject(buffer);
  clReleaseContext(context);
  printf("child %d %d %d %d %d %d %d made %d\n", launched, finished, read, asked, context_error, buffer_error,
         event_error, made);
  fflush(stdout);
}

int main(int argc, char** argv) {
  const int stay = argc > 1 && strcmp(argv[1], "stay") == 0;
  cl_platform_id platform;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  const cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  kernel = clCreateKernel(program, "churn", &error);
  check(error, "clCreateKernel");
  buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof values, values, &error);
  check(error, "clCreateBuffer");
  check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
  launch();

  const pid_t child = fork();
  if (child == 0) {
    use_in_child();
    while (stay) pause();
    exit(0); /* with the handlers of the libraries that it has inherited */
  }
  if (stay) _exit(0);
  launch();
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fprintf(stderr, "opencl_fork: the child ended with %d\n", status);
    return 3;
  }
  launch();
  check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL), "clEnqueueReadBuffer");
  size_t wrong = 0;
  for (size_t i = 0; i < kItems; ++i) wrong += values[i] != 3 * kAhead;
  printf("wrong %zu\n", wrong);
  return wrong != 0;
}
