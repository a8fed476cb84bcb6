/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices of European calls by the binomial tree of Cox, Ross and Rubinstein (Journal of Financial Economics 7, 1979):
 * one work group folds one option's tree in local memory. Held at a sample of options by the same tree in double
 * precision on this side, and at all of them by the bounds max(0, S - X e^-rT) <= C <= S.
 */
#include <math.h>

#include "module_cl.h"

#define RATE 0.02f
#define VOLATILITY 0.30f
#define GROUP 64
#define STEPS_MAX 2048

static const char kSource[] =
    "kernel void fold(global const float* stock, global const float* strike, global const float* years,\n"
    "                 global float* call, int steps, float rate, float volatility, local float* value) {\n"
    "  const int option = get_group_id(0), me = get_local_id(0), width = get_local_size(0);\n"
    "  const float s = stock[option], x = strike[option], dt = years[option] / steps;\n"
    "  const float step = volatility * sqrt(dt), grown = exp(rate * dt), up = exp(step), down = exp(-step);\n"
    "  const float p = (grown - down) / (up - down);\n"
    "  const float high = p / grown, low = (1.0f - p) / grown;\n"
    "  for (int i = me; i <= steps; i += width)\n"
    "    value[i] = fmax(s * exp(step * (2.0f * i - steps)) - x, 0.0f);\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  global float* result = call + option;\n"
    /* Every second array is the other half of the local memory, so that one barrier a level is enough. */
    "  local float* from = value;\n"
    "  local float* to = value + steps + 1;\n"
    "  for (int level = steps; level > 0; --level) {\n"
    "    for (int i = me; i < level; i += width) to[i] = high * from[i + 1] + low * from[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    local float* swapped = from; from = to; to = swapped;\n"
    "  }\n"
    "  if (me == 0) *result = from[0];\n"
    "}\n";

static double reference_call(const weir_run* run, double s, double x, double t, int steps) {
  double* value = run->allocate(run, (uint64_t)(steps + 1) * sizeof(double));
  if (value == NULL) return -1;
  const double dt = t / steps, step = VOLATILITY * sqrt(dt), grown = exp(RATE * dt);
  const double p = (grown - exp(-step)) / (exp(step) - exp(-step));
  for (int i = 0; i <= steps; ++i) value[i] = fmax(s * exp(step * (2.0 * i - steps)) - x, 0);
  for (int level = steps; level > 0; --level)
    for (int i = 0; i < level; ++i) value[i] = (p * value[i + 1] + (1 - p) * value[i]) / grown;
  return value[0];
}

static int check(const weir_run* run, uint64_t n, int steps, const float* in, const float* call) {
  char words[200];
  const uint64_t apart = n / 4 + 1; /* at most four: each takes as long as a work group's whole tree */
  for (uint64_t i = 0; i < n; ++i) {
    const double s = in[i], x = in[n + i], t = in[2 * n + i];
    const double off = i % apart == 0 ? reference_call(run, s, x, t, steps) - call[i] : 0;
    /* Each level rounds, in float. */
    const double slack = 1e-3 + 2e-6 * steps * s;
    if (!(call[i] >= fmax(0, s - x * exp(-RATE * t)) - slack) || !(call[i] <= s + slack) || !(fabs(off) < slack)) {
      snprintf(words, sizeof words, "option %llu is wrong: %g for stock %g, strike %g, %g years, off by %g",
               (unsigned long long)i, call[i], s, x, t, off);
      return run->fail(run, words);
    }
  }
  snprintf(words, sizeof words, "%llu options in %d steps, within their bounds\n", (unsigned long long)n, steps);
  run->say(run, words);
  return run->output(run, call, n * sizeof(float));
}

static int fold(const weir_run* run, cl_kernel kernel, cl_mem* buffers, uint64_t n, int steps) {
  cl_command_queue queue = (cl_command_queue)run->queue;
  const float rate = RATE, volatility = VOLATILITY;
  const size_t bytes = n * sizeof(float);
  float* in = run->allocate(run, 3 * bytes);
  float* call = run->allocate(run, bytes);
  if (in == NULL || call == NULL) return run->fail(run, "not enough memory for this number of options");
  uint64_t seed = n;
  for (uint64_t i = 0; i < n; ++i) {
    in[i] = (float)(5 + 25 * module_uniform(&seed));
    in[n + i] = (float)(1 + 99 * module_uniform(&seed));
    in[2 * n + i] = (float)(0.25 + 9.75 * module_uniform(&seed));
  }
  cl_int error = CL_SUCCESS;
  for (cl_uint i = 0; i < 4; ++i) {
    if ((buffers[i] = module_buffer(run, bytes)) == NULL) return 1;
    error |= clSetKernelArg(kernel, i, sizeof(cl_mem), &buffers[i]);
    if (i < 3) error |= clEnqueueWriteBuffer(queue, buffers[i], CL_FALSE, 0, bytes, in + i * n, 0, NULL, NULL);
  }
  error |= clSetKernelArg(kernel, 4, sizeof steps, &steps);
  error |= clSetKernelArg(kernel, 5, sizeof rate, &rate);
  error |= clSetKernelArg(kernel, 6, sizeof volatility, &volatility);
  error |= clSetKernelArg(kernel, 7, 2 * ((size_t)steps + 1) * sizeof(float), NULL);
  if (module_failed(run, error, "writing the options")) return 1;
  const size_t items = n * GROUP, group = GROUP;
  error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL);
  if (module_failed(run, error, "folding the trees")) return 1;
  error = clEnqueueReadBuffer(queue, buffers[3], CL_TRUE, 0, bytes, call, 0, NULL, NULL);
  if (module_failed(run, error, "reading the prices")) return 1;
  return check(run, n, steps, in, call);
}

static int execute(const weir_run* run) {
  uint64_t n, steps;
  if (module_arguments_known(run, "n steps")) return 1;
  if (module_argument(run, "n", 256, 1, 1u << 20, &n) || module_argument(run, "steps", 512, 1, STEPS_MAX, &steps))
    return 1;
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = clCreateKernel((cl_program)run->prepared, "fold", &error);
  if (module_failed(run, error, "making the kernel")) return 1;
  cl_mem buffers[4] = {NULL};
  const int failed = fold(run, kernel, buffers, n, (int)steps);
  clFinish((cl_command_queue)run->queue);
  module_release_buffers(buffers, 4);
  clReleaseKernel(kernel);
  return failed;
}

MODULE_OF_ONE("binomial-options",
              "n=256 steps=512: prices of n European calls by trees with that many steps, as floats");
