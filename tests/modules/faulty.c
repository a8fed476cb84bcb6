/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that do what they should not, for the end-to-end tests: what is asked of them is in their names. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weir/module.h>

static int crash(const weir_run* run) {
  *(volatile int*)(uintptr_t)(run->input_bytes + 8) = 1;
  return 0;
}

static int overflow(const weir_run* run) {
  volatile char page[65536];
  page[0] = 1;
  return run->input_bytes == 1 ? 0 : overflow(run) + page[0];
}

static int leave(const weir_run* run) {
  (void)run;
  exit(3);
}

/* Has no end, but leaves the processor to others. */
static int loop(const weir_run* run) {
  const struct timespec moment = {0, 1000000};
  while (run->size != 0) nanosleep(&moment, NULL);
  return 0;
}

static int nap(const weir_run* run) {
  const long ms = strtol(run->arguments, NULL, 10);
  const struct timespec span = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&span, NULL);
  run->say(run, "rested");
  return run->output(run, run->arguments, strlen(run->arguments));
}

static int refuse(const weir_run* run) { return run->fail(run, "it is not in the mood"); }
static int mute(const weir_run* run) {
  (void)run;
  return 5;
}

static int gorge(const weir_run* run) {
  cl_ulong most = 0;
  cl_int error = CL_SUCCESS;
  clGetDeviceInfo((cl_device_id)run->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof most, &most, NULL);
  cl_mem buffer = clCreateBuffer((cl_context)run->context, CL_MEM_READ_WRITE, (size_t)most * 4, NULL, &error);
  if (buffer != NULL) clReleaseMemObject(buffer);
  return error == CL_SUCCESS ? run->fail(run, "the device gave more than it has")
                             : run->fail(run, "the device has not that much memory");
}

/* Memory of the host's, never given back by the module. */
static int leak(const weir_run* run) {
  for (int i = 0; i < 16; ++i) {
    char* bytes = run->allocate(run, 1 << 20);
    if (bytes == NULL) return run->fail(run, "no memory");
    memset(bytes, i, 1 << 20);
  }
  return 0;
}

static int output(const weir_run* run) {
  static const char zeros[1 << 20];
  while (run->output(run, zeros, sizeof zeros) == 0) {
  }
  return 0;
}

static void forget(void* object) { free(object); }

/* Says how often it was called since what it keeps was released. */
static int count(const weir_run* run) {
  int* times = run->find(run, "times");
  if (times == NULL) {
    times = calloc(1, sizeof *times);
    if (times == NULL || run->keep(run, "times", times, sizeof *times, forget) != 0) return 1;
  }
  char text[16];
  snprintf(text, sizeof text, "%d", ++*times);
  run->say(run, text);
  return 0;
}

#define KERNEL(function) \
  { .size = sizeof(weir_kernel), .name = #function, .summary = "does it", .execute = function }
static const weir_kernel kKernels[] = {KERNEL(crash), KERNEL(overflow), KERNEL(leave), KERNEL(loop),
                                       KERNEL(nap),   KERNEL(refuse),   KERNEL(mute),  KERNEL(gorge),
                                       KERNEL(leak),  KERNEL(output),   KERNEL(count)};
#ifndef FAULTY_API
#define FAULTY_API WEIR_API_OPENCL
#endif
WEIR_MODULE = {.abi = WEIR_MODULE_ABI,
               .size = sizeof(weir_module),
               .api = FAULTY_API,
               .kernel_size = sizeof(weir_kernel),
               .kernel_count = sizeof kKernels / sizeof kKernels[0],
               .kernels = kKernels};

#ifdef FAULTY_CONSTRUCTOR
__attribute__((constructor)) static void at_once(void) { abort(); }
#endif
