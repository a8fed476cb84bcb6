/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the modules here share: arguments "n=4096 steps=256", programs built once in a context, errors in words, and a
 * generator of data. Each module is one C file with its kernels' source; this header is all that they have in common.
 */
#ifndef MODULE_CL_H
#define MODULE_CL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/module.h>

/* The number behind "name=", or `fallback`; a value that is none, or not within the bounds, fails the run. */
static inline int module_argument(const weir_run* run, const char* name, uint64_t fallback, uint64_t low, uint64_t high,
                                  uint64_t* value) {
  const size_t length = strlen(name);
  *value = fallback;
  for (const char* at = run->arguments; *at != '\0';) {
    const size_t word = strcspn(at, " ");
    if (word > length && strncmp(at, name, length) == 0 && at[length] == '=') {
      char* end = NULL;
      *value = strtoull(at + length + 1, &end, 10);
      if (end != at + word || at[length + 1] == '-' || *value < low || *value > high) {
        char words[160];
        snprintf(words, sizeof words, "the argument %s is a whole number from %llu to %llu", name,
                 (unsigned long long)low, (unsigned long long)high);
        return run->fail(run, words);
      }
    }
    at += word;
    at += strspn(at, " ");
  }
  return 0;
}

/* Fails the run if an argument is none of `known`, as "n steps": a misspelt name must not mean the default. */
static inline int module_arguments_known(const weir_run* run, const char* known) {
  for (const char* at = run->arguments + strspn(run->arguments, " "); *at != '\0'; at += strspn(at, " ")) {
    const size_t word = strcspn(at, " "), name = strcspn(at, " =");
    int found = 0;
    for (const char* is = known; *is != '\0' && !found; is += strspn(is, " ")) {
      const size_t length = strcspn(is, " ");
      found = length == name && name < word && strncmp(is, at, name) == 0;
      is += length;
    }
    if (!found) {
      char words[160];
      snprintf(words, sizeof words, "unknown argument '%.*s'; the arguments are NAME=NUMBER, and the names: %s",
               word < 40 ? (int)word : 40, at, known);
      return run->fail(run, words);
    }
    at += word;
  }
  return 0;
}

/* Fails the run unless all is well: "writing the strikes: OpenCL error -5". */
static inline int module_failed(const weir_run* run, cl_int error, const char* attempted) {
  char words[160];
  if (error == CL_SUCCESS) return 0;
  snprintf(words, sizeof words, "%s: OpenCL error %d", attempted, (int)error);
  return run->fail(run, words);
}

/* Of a module's prepare: the program is what runs find in `prepared`. */
static inline int module_build(const weir_run* run, const char* source, void** prepared) {
  cl_int error = CL_SUCCESS;
  cl_device_id device = (cl_device_id)run->device;
  cl_program program = clCreateProgramWithSource((cl_context)run->context, 1, &source, NULL, &error);
  if (module_failed(run, error, "making the program")) return 1;
  error = clBuildProgram(program, 1, &device, "", NULL, NULL);
  if (error == CL_SUCCESS) {
    *prepared = program;
    return 0;
  }
  char log[2048] = "";
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
  clReleaseProgram(program);
  run->fail(run, log[0] != '\0' ? log : "the program does not build");
  return 1;
}

static inline void module_release_program(void* prepared) { clReleaseProgram((cl_program)prepared); }

/* `bytes` of the device; where it is short of memory, what is kept from earlier runs makes room. */
static inline cl_mem module_buffer(const weir_run* run, size_t bytes) {
  cl_int error = CL_SUCCESS;
  cl_mem buffer = clCreateBuffer((cl_context)run->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  if (error != CL_SUCCESS && run->make_room(run, bytes) > 0)
    buffer = clCreateBuffer((cl_context)run->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  if (module_failed(run, error, "making a buffer")) return NULL;
  return buffer;
}

static inline void module_release_buffers(cl_mem* buffers, int count) {
  for (int i = 0; i < count; ++i)
    if (buffers[i] != NULL) clReleaseMemObject(buffers[i]);
}

/* The same data every time: SplitMix64, as a number from 0 to 1. */
static inline double module_uniform(uint64_t* state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return (double)(z >> 11) * 0x1.0p-53;
}

/* The one kernel of a module whose kSource is built once in a context; after its `execute`. */
#define MODULE_OF_ONE(kernel_name, kernel_summary)                                                          \
  static int prepare(const weir_run* run, void** prepared) { return module_build(run, kSource, prepared); } \
  static const weir_kernel kKernels[] = {                                                                   \
      {.size = sizeof(weir_kernel), .name = kernel_name, .summary = kernel_summary, .execute = execute}};   \
  WEIR_MODULE = {.abi = WEIR_MODULE_ABI,                                                                    \
                 .size = sizeof(weir_module),                                                               \
                 .api = WEIR_API_OPENCL,                                                                    \
                 .kernel_size = sizeof(weir_kernel),                                                        \
                 .kernel_count = 1,                                                                         \
                 .kernels = kKernels,                                                                       \
                 .prepare = prepare,                                                                        \
                 .unprepare = module_release_program}

#endif
