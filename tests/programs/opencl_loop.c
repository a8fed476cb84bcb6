/* SPDX-License-Identifier: Apache-2.0
 * A compute program for tests: runs a kernel repeatedly and checks what it computed. Does not use Weir's code.
 *
 *   opencl_loop SECONDS ITEMS ROUNDS [AHEAD [REST_MS [MARK [WHOLE [THREAD]]]]]
 *
 *                                                               AHEAD kernels are enqueued between two finishes (1),
 *                                                               after each finish it rests (0 ms), and with a MARK of
 *                                                               1 a marker is enqueued before it; with a WHOLE of
 *                                                               1 launches cannot be cut into smaller ones; with a
 *                                                               THREAD of 1 a thread beside the main one makes all
 *                                                               calls, and exits
 *
 * SIGTERM makes the end come early. Prints kernels a second and "wrong 0". Exits with 1 when a result was wrong, with 2
 * when a call failed. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
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

struct device_objects {
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernel;
  cl_mem buffer;
};

static struct device_objects make(size_t items, cl_uint* values, cl_uint rounds, const char* options) {
  struct device_objects made;
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  made.context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  made.queue = clCreateCommandQueue(made.context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  made.program = clCreateProgramWithSource(made.context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(made.program, 1, &device, options, NULL, NULL), "clBuildProgram");
  made.kernel = clCreateKernel(made.program, "churn", &error);
  check(error, "clCreateKernel");
  made.buffer =
      clCreateBuffer(made.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, items * sizeof *values, values, &error);
  check(error, "clCreateBuffer");
  check(clSetKernelArg(made.kernel, 0, sizeof made.buffer, &made.buffer), "clSetKernelArg");
  check(clSetKernelArg(made.kernel, 1, sizeof rounds, &rounds), "clSetKernelArg");
  check(clFinish(made.queue), "clFinish");
  return made;
}

static void release(const struct device_objects* made) {
  clReleaseMemObject(made->buffer);
  clReleaseKernel(made->kernel);
  clReleaseProgram(made->program);
  clReleaseCommandQueue(made->queue);
  clReleaseContext(made->context);
}

/* Each value starts as its index. How many are not right after so many steps of the kernel? */
static size_t count_wrong(const cl_uint* values, size_t items, unsigned long steps) {
  /* Composes the steps of x -> a x + c by squaring. */
  cl_uint a = 1, c = 0, step_a = 1664525u, step_c = 1013904223u;
  for (unsigned long n = steps; n != 0; n >>= 1) {
    if (n & 1) {
      c = c * step_a + step_c;
      a *= step_a;
    }
    step_c += step_c * step_a;
    step_a *= step_a;
  }
  size_t wrong = 0;
  for (size_t i = 0; i < items; ++i) wrong += values[i] != a * (cl_uint)i + c;
  return wrong;
}

static int run(int argc, char** argv) {
  const double seconds = atof(argv[1]);
  const size_t items = (size_t)atol(argv[2]);
  const cl_uint rounds = (cl_uint)atol(argv[3]);
  const int ahead = argc > 4 ? atoi(argv[4]) : 1;
  const long rest_us = argc > 5 ? atol(argv[5]) * 1000 : 0;
  const int mark = argc > 6 && atoi(argv[6]) != 0;
  /* A kernel that asks for the size of its launch would notice cuts. */
  const char* options = argc > 7 && atoi(argv[7]) != 0 ? "-D SIZE=get_global_size" : NULL;
  const struct timespec rest = {rest_us / 1000000, rest_us % 1000000 * 1000};
  cl_uint* values = malloc(items * sizeof *values);
  for (size_t i = 0; i < items; ++i) values[i] = (cl_uint)i;
  const struct device_objects made = make(items, values, rounds, options);
  const cl_command_queue queue = made.queue;
  signal(SIGTERM, on_signal);
  printf("ready\n");
  fflush(stdout);

  const double start = now();
  unsigned long kernels = 0;
  do {
    for (int i = 0; i < ahead; ++i, ++kernels)
      check(clEnqueueNDRangeKernel(queue, made.kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    if (mark) check(clEnqueueMarkerWithWaitList(queue, 0, NULL, NULL), "clEnqueueMarkerWithWaitList");
    check(clFinish(queue), "clFinish");
    if (rest_us > 0) nanosleep(&rest, NULL);
  } while (!over && now() - start < seconds);
  const double span = now() - start;

  check(clEnqueueReadBuffer(queue, made.buffer, CL_TRUE, 0, items * sizeof *values, values, 0, NULL, NULL),
        "clEnqueueReadBuffer");
  const size_t wrong = count_wrong(values, items, kernels * rounds);
  printf("%.1f kernels/s, wrong %zu\n", (double)kernels / span, wrong);
  release(&made);
  free(values);
  return wrong != 0;
}

struct arguments {
  int argc;
  char** argv;
};

static void* run_in_thread(void* given) {
  const struct arguments* arguments = given;
  exit(run(arguments->argc, arguments->argv));
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  if (argc <= 8 || atoi(argv[8]) == 0) return run(argc, argv);
  struct arguments arguments = {argc, argv};
  pthread_t thread;
  if (pthread_create(&thread, NULL, run_in_thread, &arguments) != 0) return 2;
  pthread_join(thread, NULL);
  return 2; /* it exits */
}
