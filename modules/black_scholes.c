/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices of European options by the formula of Black and Scholes (Journal of Political Economy 81, 1973), N(x) by its
 * approximation in Abramowitz and Stegun 26.2.17 (error below 7.5e-8). Held by put-call parity at every option, and by
 * erfc on this side at a sample.
 */
#include <math.h>

#include "module_cl.h"

#define RATE 0.02f
#define VOLATILITY 0.30f

static const char kSource[] =
    "float above(float d) {\n" /* N(d) */
    "  const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));\n"
    "  const float tail = 0.39894228040f * exp(-0.5f * d * d) *\n"
    "      (k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));\n"
    "  return d > 0 ? 1.0f - tail : tail;\n"
    "}\n"
    "kernel void price(global const float* stock, global const float* strike, global const float* years,\n"
    "                  global float* call, global float* put, float rate, float volatility) {\n"
    "  const size_t i = get_global_id(0);\n"
    "  const float s = stock[i], x = strike[i], t = years[i];\n"
    "  const float spread = volatility * sqrt(t);\n"
    "  const float d1 = (log(s / x) + (rate + 0.5f * volatility * volatility) * t) / spread;\n"
    "  const float d2 = d1 - spread, later = x * exp(-rate * t);\n"
    "  call[i] = s * above(d1) - later * above(d2);\n"
    "  put[i] = later * (1.0f - above(d2)) - s * (1.0f - above(d1));\n"
    "}\n";

static double below(double d) { return 0.5 * erfc(-d / sqrt(2.0)); }

/* What the prices are on this side, for one option. */
static double reference_call(double s, double x, double t) {
  const double spread = VOLATILITY * sqrt(t);
  const double d1 = (log(s / x) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * t) / spread;
  return s * below(d1) - x * exp(-RATE * t) * below(d1 - spread);
}

static int check(const weir_run* run, uint64_t n, const float* in, const float* out) {
  const float *stock = in, *strike = in + n, *years = in + 2 * n, *call = out, *put = out + n;
  char words[200];
  for (uint64_t i = 0; i < n; ++i) {
    const double parity = stock[i] - strike[i] * exp(-RATE * years[i]) - (call[i] - put[i]);
    const int sampled = i % 997 == 0;
    const double off = sampled ? reference_call(stock[i], strike[i], years[i]) - call[i] : 0;
    if (!(fabs(parity) < 2e-3) || !(fabs(off) < 2e-3)) {
      snprintf(words, sizeof words, "option %llu is wrong: put-call parity is off by %g, the call by %g",
               (unsigned long long)i, parity, off);
      return run->fail(run, words);
    }
  }
  snprintf(words, sizeof words, "%llu options, put-call parity holds\n", (unsigned long long)n);
  run->say(run, words);
  return run->output(run, out, 2 * n * sizeof(float));
}

static int price(const weir_run* run, cl_kernel kernel, cl_mem* buffers, uint64_t n, uint64_t rounds) {
  cl_command_queue queue = (cl_command_queue)run->queue;
  const float rate = RATE, volatility = VOLATILITY;
  const size_t bytes = n * sizeof(float);
  float* in = run->allocate(run, 3 * bytes);
  float* out = run->allocate(run, 2 * bytes);
  if (in == NULL || out == NULL) return run->fail(run, "not enough memory for this number of options");
  uint64_t seed = n;
  for (uint64_t i = 0; i < n; ++i) {
    in[i] = (float)(5 + 25 * module_uniform(&seed));
    in[n + i] = (float)(1 + 99 * module_uniform(&seed));
    in[2 * n + i] = (float)(0.25 + 9.75 * module_uniform(&seed));
  }
  cl_int error = CL_SUCCESS;
  for (cl_uint i = 0; i < 5; ++i) {
    if ((buffers[i] = module_buffer(run, bytes)) == NULL) return 1;
    error |= clSetKernelArg(kernel, i, sizeof(cl_mem), &buffers[i]);
    if (i < 3) error |= clEnqueueWriteBuffer(queue, buffers[i], CL_FALSE, 0, bytes, in + i * n, 0, NULL, NULL);
  }
  error |= clSetKernelArg(kernel, 5, sizeof rate, &rate);
  error |= clSetKernelArg(kernel, 6, sizeof volatility, &volatility);
  if (module_failed(run, error, "writing the options")) return 1;
  const size_t items = n;
  for (uint64_t i = 0; i < rounds; ++i)
    if (module_failed(run, clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL), "pricing"))
      return 1;
  error = clEnqueueReadBuffer(queue, buffers[3], CL_FALSE, 0, bytes, out, 0, NULL, NULL);
  error |= clEnqueueReadBuffer(queue, buffers[4], CL_TRUE, 0, bytes, out + n, 0, NULL, NULL);
  if (module_failed(run, error, "reading the prices")) return 1;
  return check(run, n, in, out);
}

static int execute(const weir_run* run) {
  uint64_t n, rounds;
  if (module_arguments_known(run, "n rounds")) return 1;
  if (module_argument(run, "n", 65536, 1, 4u << 20, &n) || module_argument(run, "rounds", 4, 1, 100000, &rounds))
    return 1;
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = clCreateKernel((cl_program)run->prepared, "price", &error);
  if (module_failed(run, error, "making the kernel")) return 1;
  cl_mem buffers[5] = {NULL};
  const int failed = price(run, kernel, buffers, n, rounds);
  clFinish((cl_command_queue)run->queue);
  module_release_buffers(buffers, 5);
  clReleaseKernel(kernel);
  return failed;
}

MODULE_OF_ONE("black-scholes", "n=65536 rounds=4: prices of n European options, as floats: calls, then puts");
