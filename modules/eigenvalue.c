/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All eigenvalues of a symmetric tridiagonal matrix by bisection: how many are below x is the number of negative terms
 * of the Sturm sequence q_i = d_i - x - e_{i-1}^2 / q_{i-1} (Barth, Martin, Wilkinson, Numerische Mathematik 9, 1967);
 * one work item for each. Held by the same counts in double precision on this side at a sample, by their order, and by
 * their sum, which is the trace. The matrix stays on the device: the next run of the same size finds it there.
 */
#include <math.h>

#include "module_cl.h"

#define SPREAD 1e-4 /* of an eigenvalue found in float, over the width of the interval that holds all */

static const char kSource[] =
    "kernel void bisect(global const float* diagonal, global const float* squared, global float* values, int n,\n"
    "                   float lowest, float highest) {\n"
    "  const int wanted = get_global_id(0);\n"
    "  float low = lowest, high = highest;\n"
    "  for (int round = 0; round < 40; ++round) {\n"
    "    const float middle = 0.5f * (low + high);\n"
    "    if (middle <= low || middle >= high) break;\n"
    "    int below = 0;\n"
    "    float q = 1.0f;\n"
    "    for (int i = 0; i < n; ++i) {\n"
    "      q = diagonal[i] - middle - (i > 0 ? squared[i - 1] / q : 0.0f);\n"
    "      if (fabs(q) < 1e-20f) q = -1e-20f;\n"
    "      below += q < 0;\n"
    "    }\n"
    "    if (below <= wanted) low = middle; else high = middle;\n"
    "  }\n"
    "  values[wanted] = 0.5f * (low + high);\n"
    "}\n";

/* The matrix: its diagonal, then the squares beside it, and an interval with all of its eigenvalues (Gershgorin). */
typedef struct matrix {
  uint64_t n;
  float *diagonal, *squared;
  float lowest, highest;
} matrix;

static void draw(matrix* m) {
  uint64_t seed = m->n;
  for (uint64_t i = 0; i < m->n; ++i) {
    m->diagonal[i] = (float)(10 * module_uniform(&seed));
    m->squared[i] = (float)module_uniform(&seed);
  }
  m->lowest = INFINITY;
  m->highest = -INFINITY;
  for (uint64_t i = 0; i < m->n; ++i) {
    const float beside = (i > 0 ? sqrtf(m->squared[i - 1]) : 0) + (i + 1 < m->n ? sqrtf(m->squared[i]) : 0);
    m->lowest = fminf(m->lowest, m->diagonal[i] - beside);
    m->highest = fmaxf(m->highest, m->diagonal[i] + beside);
  }
}

static uint64_t count_below(const matrix* m, double x) {
  uint64_t below = 0;
  double q = 1;
  for (uint64_t i = 0; i < m->n; ++i) {
    q = m->diagonal[i] - x - (i > 0 ? m->squared[i - 1] / q : 0);
    if (fabs(q) < 1e-200) q = -1e-200;
    below += q < 0;
  }
  return below;
}

static int check(const weir_run* run, const matrix* m, const float* values) {
  char words[200];
  const double spread = SPREAD * (m->highest - m->lowest);
  double trace = 0, sum = 0;
  for (uint64_t i = 0; i < m->n; ++i) {
    trace += m->diagonal[i];
    sum += values[i];
    const int falls = i > 0 && values[i] < values[i - 1] - (float)spread;
    const int sampled = i % (m->n / 16 + 1) == 0;
    if (falls || (sampled && (count_below(m, values[i] - spread) > i || count_below(m, values[i] + spread) <= i))) {
      snprintf(words, sizeof words, "eigenvalue %llu is wrong: %g", (unsigned long long)i, values[i]);
      return run->fail(run, words);
    }
  }
  if (!(fabs(trace - sum) < spread * (double)m->n)) {
    snprintf(words, sizeof words, "the eigenvalues add up to %g, and the trace is %g", sum, trace);
    return run->fail(run, words);
  }
  snprintf(words, sizeof words, "%llu eigenvalues between %g and %g\n", (unsigned long long)m->n, values[0],
           values[m->n - 1]);
  run->say(run, words);
  return run->output(run, values, m->n * sizeof(float));
}

static void release(void* buffer) { clReleaseMemObject((cl_mem)buffer); }

/* On the device: kept from an earlier run of this size, or written and kept now. *own: it is this run's to release. */
static cl_mem part_of_matrix(const weir_run* run, const char* part, const float* numbers, uint64_t n, int* own) {
  char name[64];
  snprintf(name, sizeof name, "%s-%llu", part, (unsigned long long)n);
  *own = 0;
  cl_mem buffer = run->find(run, name);
  if (buffer != NULL) return buffer;
  const size_t bytes = n * sizeof(float);
  buffer = module_buffer(run, bytes);
  if (buffer == NULL) return NULL;
  /* Kept once it is written: another run may find it at once. */
  const cl_int error =
      clEnqueueWriteBuffer((cl_command_queue)run->queue, buffer, CL_TRUE, 0, bytes, numbers, 0, NULL, NULL);
  if (module_failed(run, error, "writing the matrix")) {
    clReleaseMemObject(buffer);
    return NULL;
  }
  *own = run->keep(run, name, buffer, bytes, release) != 0;
  return buffer;
}

static int bisect(const weir_run* run, cl_kernel kernel, const matrix* m, cl_mem* values_there, cl_mem* parts) {
  cl_command_queue queue = (cl_command_queue)run->queue;
  const size_t items = m->n;
  const int n = (int)m->n;
  float* values = run->allocate(run, m->n * sizeof(float));
  if (values == NULL) return run->fail(run, "not enough memory for the eigenvalues");
  if ((*values_there = module_buffer(run, m->n * sizeof(float))) == NULL) return 1;
  cl_int error = clSetKernelArg(kernel, 0, sizeof(cl_mem), &parts[0]);
  error |= clSetKernelArg(kernel, 1, sizeof(cl_mem), &parts[1]);
  error |= clSetKernelArg(kernel, 2, sizeof(cl_mem), values_there);
  error |= clSetKernelArg(kernel, 3, sizeof n, &n);
  error |= clSetKernelArg(kernel, 4, sizeof m->lowest, &m->lowest);
  error |= clSetKernelArg(kernel, 5, sizeof m->highest, &m->highest);
  error |= clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
  if (module_failed(run, error, "bisecting")) return 1;
  error = clEnqueueReadBuffer(queue, *values_there, CL_TRUE, 0, m->n * sizeof(float), values, 0, NULL, NULL);
  if (module_failed(run, error, "reading the eigenvalues")) return 1;
  return check(run, m, values);
}

static int execute(const weir_run* run) {
  matrix m;
  if (module_arguments_known(run, "n")) return 1;
  if (module_argument(run, "n", 1024, 2, 1u << 18, &m.n)) return 1;
  m.diagonal = run->allocate(run, m.n * sizeof(float));
  m.squared = run->allocate(run, m.n * sizeof(float));
  if (m.diagonal == NULL || m.squared == NULL) return run->fail(run, "not enough memory for a matrix of this size");
  draw(&m);
  cl_int error = CL_SUCCESS;
  cl_kernel kernel = clCreateKernel((cl_program)run->prepared, "bisect", &error);
  if (module_failed(run, error, "making the kernel")) return 1;
  cl_mem parts[2] = {NULL, NULL}, values = NULL;
  int own[2] = {0, 0};
  parts[0] = part_of_matrix(run, "diagonal", m.diagonal, m.n, &own[0]);
  if (parts[0] != NULL) parts[1] = part_of_matrix(run, "squared", m.squared, m.n, &own[1]);
  const int failed = parts[1] == NULL || bisect(run, kernel, &m, &values, parts);
  clFinish((cl_command_queue)run->queue);
  for (int i = 0; i < 2; ++i)
    if (own[i]) clReleaseMemObject(parts[i]);
  module_release_buffers(&values, 1);
  clReleaseKernel(kernel);
  return failed;
}

MODULE_OF_ONE("eigenvalue", "n=1024: the eigenvalues of a drawn symmetric tridiagonal matrix, ascending, as floats");
