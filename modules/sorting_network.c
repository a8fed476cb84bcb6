/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts keys by Batcher's bitonic network (AFIPS Spring Joint Computer Conference, 1968), one launch for each of its
 * log n (log n + 1) / 2 stages. Held by the law: what comes out rises, and is a permutation of what went in (two sums
 * over all keys that no exchange changes). Sorts its input, whose keys are 32-bit numbers, or drawn ones.
 */
#include "module_cl.h"

static const char kSource[] =
    "kernel void exchange(global uint* keys, uint block, uint apart) {\n"
    "  const uint pair = get_global_id(0);\n"
    "  const uint left = 2 * apart * (pair / apart) + pair % apart, right = left + apart;\n"
    "  const uint a = keys[left], b = keys[right];\n"
    "  const bool rises = (left & block) == 0;\n"
    "  if ((a > b) == rises) { keys[left] = b; keys[right] = a; }\n"
    "}\n";

typedef struct sums {
  uint64_t plain, mixed;
} sums;

static sums sums_of(const uint32_t* keys, uint64_t n) {
  sums all = {0, 0};
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t state = keys[i];
    all.plain += keys[i];
    all.mixed += (uint64_t)(module_uniform(&state) * 0x1.0p53);
  }
  return all;
}

static int check(const weir_run* run, const uint32_t* keys, uint64_t n, sums before) {
  char words[160];
  for (uint64_t i = 1; i < n; ++i)
    if (keys[i - 1] > keys[i]) {
      snprintf(words, sizeof words, "keys %llu and %llu do not rise", (unsigned long long)(i - 1),
               (unsigned long long)i);
      return run->fail(run, words);
    }
  const sums after = sums_of(keys, n);
  if (after.plain != before.plain || after.mixed != before.mixed)
    return run->fail(run, "the output is not a permutation of the input");
  snprintf(words, sizeof words, "%llu keys, sorted\n", (unsigned long long)n);
  run->say(run, words);
  return run->output(run, keys, n * sizeof(uint32_t));
}

static int sort(const weir_run* run, cl_kernel kernel, cl_mem* buffer, uint32_t* keys, uint64_t n) {
  cl_command_queue queue = (cl_command_queue)run->queue;
  const sums before = sums_of(keys, n);
  const size_t bytes = n * sizeof(uint32_t), items = n / 2;
  if ((*buffer = module_buffer(run, bytes)) == NULL) return 1;
  cl_int error = clEnqueueWriteBuffer(queue, *buffer, CL_FALSE, 0, bytes, keys, 0, NULL, NULL);
  error |= clSetKernelArg(kernel, 0, sizeof(cl_mem), buffer);
  if (module_failed(run, error, "writing the keys")) return 1;
  for (uint32_t block = 2; block <= n; block *= 2)
    for (uint32_t apart = block / 2; apart > 0; apart /= 2) {
      error = clSetKernelArg(kernel, 1, sizeof block, &block);
      error |= clSetKernelArg(kernel, 2, sizeof apart, &apart);
      error |= clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
      if (module_failed(run, error, "exchanging keys")) return 1;
    }
  error = clEnqueueReadBuffer(queue, *buffer, CL_TRUE, 0, bytes, keys, 0, NULL, NULL);
  if (module_failed(run, error, "reading the keys")) return 1;
  return check(run, keys, n, before);
}

static int execute(const weir_run* run) {
  uint64_t n;
  if (module_arguments_known(run, "n")) return 1;
  if (module_argument(run, "n", 65536, 2, 4u << 20, &n)) return 1;
  if (run->input != NULL) n = run->input_bytes / sizeof(uint32_t);
  if (n < 2 || (n & (n - 1)) != 0 || (run->input != NULL && run->input_bytes % sizeof(uint32_t) != 0))
    return run->fail(run, "the number of keys is a power of two, 2 or more, and each has four bytes");
  uint32_t* keys = run->allocate(run, n * sizeof(uint32_t));
  if (keys == NULL) return run->fail(run, "not enough memory for this number of keys");
  uint64_t seed = n;
  if (run->input != NULL)
    memcpy(keys, run->input, n * sizeof(uint32_t));
  else
    for (uint64_t i = 0; i < n; ++i) keys[i] = (uint32_t)(module_uniform(&seed) * 0x1.0p32);
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = clCreateKernel((cl_program)run->prepared, "exchange", &error);
  if (module_failed(run, error, "making the kernel")) return 1;
  cl_mem buffer = NULL;
  const int failed = sort(run, kernel, &buffer, keys, n);
  clFinish((cl_command_queue)run->queue);
  module_release_buffers(&buffer, 1);
  clReleaseKernel(kernel);
  return failed;
}

MODULE_OF_ONE("sorting-network",
              "n=65536: sorts n drawn keys, or those of the input (32-bit numbers, a power of two of them)");
