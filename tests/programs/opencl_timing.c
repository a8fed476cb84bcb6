/* SPDX-License-Identifier: Apache-2.0
 * What a compute program can observe of a device's time: events, profiling, waiting, failures, memory. Does not use
 * Weir's code.
 *
 *   opencl_timing LAUNCHES ITEMS [TOLERANCE_NS]    TOLERANCE_NS: between times of different events (0)
 *
 * Prints one JSON object. Exits with 1 when a result or an order was wrong, with 2 when a call failed. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char* source =
    "kernel void add(global uint *a) { a[get_global_id(0)] += 1; }\n"
    "kernel void skipped(global uint *a) { a[get_global_id(0)] += 1000; }\n";

static int wrong;
static atomic_int callbacks;

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_timing: %s: error %d\n", what, error);
  exit(2);
}

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "opencl_timing: not so: %s\n", what);
  wrong = 1;
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static cl_ulong at(cl_event event, cl_profiling_info name) {
  cl_ulong ns = 0;
  check(clGetEventProfilingInfo(event, name, sizeof ns, &ns, NULL), "clGetEventProfilingInfo");
  return ns;
}

static cl_int status_of(cl_event event) {
  cl_int status = 1;
  check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL), "clGetEventInfo");
  return status;
}

static void CL_CALLBACK count(cl_event event, cl_int status, void* expected) {
  (void)event;
  if (status == *(cl_int*)expected || (status < 0 && *(cl_int*)expected < 0)) atomic_fetch_add(&callbacks, 1);
}

static void wait_for_callbacks(int how_many) {
  const struct timespec rest = {0, 1000000};
  for (int i = 0; i < 20000 && atomic_load(&callbacks) < how_many; ++i) nanosleep(&rest, NULL);
  expect(atomic_load(&callbacks) == how_many, "callbacks are called once");
}

static cl_device_id device;
static cl_context context;
static cl_command_queue queue, free_queue;
static cl_program program;
static cl_kernel add, skipped;
static cl_mem buffer;
static cl_uint* values;
static size_t items, bytes;
static cl_ulong tolerance;
static cl_int complete = CL_COMPLETE, failure = -1;

static void make_objects(void) {
  cl_int error;
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &error);
  check(error, "clCreateCommandQueue");
  free_queue =
      clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
  check(error, "clCreateCommandQueue");
  program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  add = clCreateKernel(program, "add", &error);
  check(error, "clCreateKernel");
  skipped = clCreateKernel(program, "skipped", &error);
  check(error, "clCreateKernel");
  buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  check(error, "clCreateBuffer");
  check(clSetKernelArg(add, 0, sizeof buffer, &buffer), "clSetKernelArg");
  check(clSetKernelArg(skipped, 0, sizeof buffer, &buffer), "clSetKernelArg");
  values = calloc(items, sizeof *values);
  check(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, values, 0, NULL, NULL), "clEnqueueWriteBuffer");
}

static void release_objects(void) {
  clReleaseKernel(add);
  clReleaseKernel(skipped);
  clReleaseProgram(program);
  clReleaseCommandQueue(queue);
  clReleaseCommandQueue(free_queue);
  clReleaseContext(context);
  free(values);
}

/* An in-order queue: the times of events, and how long the program waits. */
static double time_launches(int launches, cl_ulong* kernel_min, cl_ulong* kernel_sum) {
  cl_event* events = calloc((size_t)launches, sizeof *events);
  double span = now_ns();
  for (int i = 0; i < launches; ++i)
    check(clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, NULL, 0, NULL, &events[i]), "clEnqueueNDRangeKernel");
  check(clSetEventCallback(events[launches - 1], CL_COMPLETE, count, &complete), "clSetEventCallback");
  check(clFinish(queue), "clFinish");
  span = now_ns() - span;
  cl_ulong last = 0;
  *kernel_min = ~0ull;
  *kernel_sum = 0;
  for (int i = 0; i < launches; ++i) {
    expect(status_of(events[i]) == CL_COMPLETE, "all commands are complete after clFinish");
    const cl_ulong queued = at(events[i], CL_PROFILING_COMMAND_QUEUED),
                   submitted = at(events[i], CL_PROFILING_COMMAND_SUBMIT);
    const cl_ulong start = at(events[i], CL_PROFILING_COMMAND_START), end = at(events[i], CL_PROFILING_COMMAND_END);
    expect(queued <= submitted && submitted <= start && start <= end, "a command's times are in order");
    expect(start + tolerance >= last, "commands of a queue in order run one after the other");
    last = end;
    *kernel_sum += end - start;
    if (end - start < *kernel_min) *kernel_min = end - start;
    clReleaseEvent(events[i]);
  }
  wait_for_callbacks(1);
  free(events);
  return span;
}

/* A kernel after its wait list in another queue, held back by a user event. */
static void check_wait_lists(void) {
  cl_int error;
  cl_event held = clCreateUserEvent(context, &error), first, second;
  check(error, "clCreateUserEvent");
  check(clEnqueueNDRangeKernel(free_queue, add, 1, NULL, &items, NULL, 1, &held, &first), "clEnqueueNDRangeKernel");
  check(clEnqueueNDRangeKernel(queue, skipped, 1, NULL, &items, NULL, 1, &first, &second), "clEnqueueNDRangeKernel");
  expect(status_of(first) > CL_RUNNING && status_of(second) > CL_RUNNING, "commands wait for a user event");
  check(clSetUserEventStatus(held, CL_COMPLETE), "clSetUserEventStatus");
  check(clWaitForEvents(1, &second), "clWaitForEvents");
  expect(status_of(first) == CL_COMPLETE, "a command's wait list is complete before it");
  expect(at(second, CL_PROFILING_COMMAND_START) + tolerance >= at(first, CL_PROFILING_COMMAND_END),
         "it begins after its wait list");
  clReleaseEvent(held);
  clReleaseEvent(first);
  clReleaseEvent(second);
}

/* A user event that fails. */
static void check_failure(void) {
  cl_int error;
  cl_event held = clCreateUserEvent(context, &error), first, second;
  check(clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, NULL, 1, &held, &first), "clEnqueueNDRangeKernel");
  check(clEnqueueMarkerWithWaitList(free_queue, 1, &first, &second), "clEnqueueMarkerWithWaitList");
  check(clSetEventCallback(second, CL_COMPLETE, count, &failure), "clSetEventCallback");
  check(clSetUserEventStatus(held, -5), "clSetUserEventStatus");
  expect(clWaitForEvents(1, &second) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
         "waiting for a command that failed says so");
  expect(clWaitForEvents(1, &first) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
         "and so does waiting for what it waits for");
  expect(status_of(held) == -5 && status_of(first) < 0 && status_of(second) < 0, "what waits for it fails");
  wait_for_callbacks(2);
  check(clFinish(queue), "clFinish");
  clReleaseEvent(held);
  clReleaseEvent(first);
  clReleaseEvent(second);
}

/* A map copies from the device, and its unmap to the device. Returns the time of the unmap and a read. */
static double time_read_after_unmap(cl_uint* computed) {
  cl_int error;
  cl_uint* mapped =
      clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &error);
  check(error, "clEnqueueMapBuffer");
  *computed = mapped[items - 1];
  for (size_t i = 0; i < items; ++i) mapped[i] += 7;
  double read_ns = now_ns(); /* the unmap's copy may begin at once */
  check(clEnqueueUnmapMemObject(queue, buffer, mapped, 0, NULL, NULL), "clEnqueueUnmapMemObject");
  check(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, bytes, values, 0, NULL, NULL), "clEnqueueReadBuffer");
  read_ns = now_ns() - read_ns;
  for (size_t i = 0; i < items; ++i) expect(values[i] == *computed + 7, "a value");
  clReleaseMemObject(buffer);
  return read_ns;
}

/* Allocates memory, beyond the first half in pieces of 1 MiB, until there is none. Returns the number of pieces. */
static int fill_memory(cl_ulong memory, cl_int* refusal) {
  int pieces = 0;
  cl_int error = CL_SUCCESS;
  cl_mem held_memory[4096];
  for (; pieces < 4096 && error == CL_SUCCESS; ++pieces)
    held_memory[pieces] =
        clCreateBuffer(context, CL_MEM_READ_WRITE, pieces == 0 ? (size_t)(memory / 2) : (size_t)1 << 20, NULL, &error);
  --pieces;
  *refusal = error;
  for (int i = 0; i < pieces; ++i) clReleaseMemObject(held_memory[i]);
  cl_mem again = clCreateBuffer(context, CL_MEM_READ_WRITE, memory / 2, NULL, &error);
  expect(error == CL_SUCCESS, "memory that was released can be taken again");
  if (error == CL_SUCCESS) clReleaseMemObject(again);
  return pieces;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int launches = atoi(argv[1]);
  items = (size_t)atol(argv[2]);
  tolerance = argc > 3 ? (cl_ulong)atoll(argv[3]) : 0;
  bytes = items * sizeof(cl_uint);
  cl_platform_id platform;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL), "clGetDeviceIDs");
  char name[128];
  cl_ulong memory;
  cl_bool unified;
  check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "clGetDeviceInfo");
  check(clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL), "clGetDeviceInfo");
  check(clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL), "clGetDeviceInfo");
  make_objects();

  cl_ulong kernel_min, kernel_sum;
  const double span = time_launches(launches, &kernel_min, &kernel_sum);
  check_wait_lists();
  check_failure();
  cl_uint computed;
  const double read_ns = time_read_after_unmap(&computed);
  cl_int refusal;
  const int pieces = fill_memory(memory, &refusal);

  printf(
      "{\"device\": \"%s\", \"unified\": %d, \"memory\": %llu, \"launches\": %d, \"span_ns\": %.0f, \"kernel_min_ns\": "
      "%llu, "
      "\"kernel_sum_ns\": %llu, \"read_ns\": %.0f, \"added\": %u, \"pieces\": %d, \"refusal\": %d, \"wrong\": %d}\n",
      name, (int)unified, (unsigned long long)memory, launches, span, (unsigned long long)kernel_min,
      (unsigned long long)kernel_sum, read_ns, computed, pieces, refusal, wrong);
  fflush(stdout);
  release_objects();
  return wrong;
}
