// SPDX-License-Identifier: Apache-2.0
// An OpenCL program that does not use Weir's code: C = A * B, a matrix of M * K by one of K * N, in groups of 16 * 16
// work-items. Compares C with rows that it computes itself, and prints a checksum of its bytes, so that runs can be
// compared.
//
//   opencl_product M N K [ROUNDS [again]]     each of M, N a multiple of 16
//
// With "again" all rounds but the last run a kernel of another name, product_again, which does the same: an emulated
// device can be told not to compute it. Results are those of the last round.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PRODUCT(name)                                                                          \
  "kernel void " name                                                                          \
  "(global const float* a, global const float* b, global float* c, int n, int k) {\n"          \
  "  const size_t column = get_global_id(0), row = get_global_id(1);\n"                        \
  "  float sum = 0;\n"                                                                         \
  "  for (int i = 0; i < k; ++i) sum = fma(a[row * k + i], b[(size_t)i * n + column], sum);\n" \
  "  c[row * n + column] = sum;\n"                                                             \
  "}\n"

static const char* kSources[2] = {PRODUCT("product"), PRODUCT("product_again")};

static void Check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_product: %s failed with error %d\n", what, error);
  exit(1);
}

static double Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static float Element(uint64_t i) { return (float)((i * 2654435761U >> 8) % 1000) / 64.0F - 7.0F; }

typedef struct {
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernel, repeated;
} Objects;

static Objects MakeObjects(int again) {
  Objects made;
  cl_int error = CL_SUCCESS;
  cl_platform_id platform;
  cl_device_id device;
  Check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  Check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  made.context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  Check(error, "clCreateContext");
  made.queue = clCreateCommandQueue(made.context, device, 0, &error);
  Check(error, "clCreateCommandQueue");
  made.program = clCreateProgramWithSource(made.context, again ? 2 : 1, kSources, NULL, &error);
  Check(error, "clCreateProgramWithSource");
  Check(clBuildProgram(made.program, 1, &device, "", NULL, NULL), "clBuildProgram");
  made.kernel = clCreateKernel(made.program, "product", &error);
  Check(error, "clCreateKernel");
  made.repeated = clCreateKernel(made.program, again ? "product_again" : "product", &error);
  Check(error, "clCreateKernel");
  return made;
}

static void Release(const Objects* made) {
  clReleaseKernel(made->repeated);
  clReleaseKernel(made->kernel);
  clReleaseProgram(made->program);
  clReleaseCommandQueue(made->queue);
  clReleaseContext(made->context);
}

// Makes the buffers of A, B and C, and sets the arguments of both kernels.
static void MakeBuffers(const Objects* on, const size_t bytes[3], size_t n, size_t k, cl_mem memory[3]) {
  cl_int error = CL_SUCCESS;
  for (int i = 0; i < 3; ++i) {
    memory[i] = clCreateBuffer(on->context, i == 2 ? CL_MEM_WRITE_ONLY : CL_MEM_READ_ONLY, bytes[i], NULL, &error);
    Check(error, "clCreateBuffer");
    Check(clSetKernelArg(on->kernel, (cl_uint)i, sizeof memory[i], &memory[i]), "clSetKernelArg");
    Check(clSetKernelArg(on->repeated, (cl_uint)i, sizeof memory[i], &memory[i]), "clSetKernelArg");
  }
  const cl_int sizes[2] = {(cl_int)n, (cl_int)k};
  for (cl_uint i = 0; i < 2; ++i) {
    Check(clSetKernelArg(on->kernel, 3 + i, sizeof sizes[i], &sizes[i]), "clSetKernelArg");
    Check(clSetKernelArg(on->repeated, 3 + i, sizeof sizes[i], &sizes[i]), "clSetKernelArg");
  }
}

// Checks every 97th row, and every row's first and last element, so that elements at cuts are among them wherever the
// cuts are.
static size_t CountWrong(const float* a, const float* b, const float* c, size_t m, size_t n, size_t k) {
  size_t wrong = 0;
  for (size_t row = 0; row < m; ++row)
    for (size_t column = 0; column < n; column += row % 97 == 0 || n == 1 ? 1 : n - 1) {
      float sum = 0;
      for (size_t i = 0; i < k; ++i) sum = __builtin_fmaf(a[row * k + i], b[i * n + column], sum);
      if (memcmp(&sum, &c[row * n + column], sizeof sum) != 0) ++wrong;
    }
  return wrong;
}

static uint64_t SumOf(const void* content, size_t bytes) {
  uint64_t hash = 14695981039346656037U;
  const unsigned char* at = content;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 1099511628211U;
  return hash;
}

int main(int argc, char** argv) {
  const size_t m = argc > 3 ? (size_t)atol(argv[1]) : 0, n = argc > 3 ? (size_t)atol(argv[2]) : 0;
  const size_t k = argc > 3 ? (size_t)atol(argv[3]) : 0;
  const int rounds = argc > 4 ? atoi(argv[4]) : 1;
  const int again = argc > 5 && strcmp(argv[5], "again") == 0;
  if (m == 0 || n == 0 || k == 0 || m % 16 != 0 || n % 16 != 0 || rounds < 1 || (argc > 5 && !again)) {
    fprintf(stderr, "Usage: opencl_product M N K [ROUNDS [again]]     M and N multiples of 16\n");
    return 2;
  }
  float* a = malloc(m * k * sizeof *a);
  float* b = malloc(k * n * sizeof *b);
  float* c = malloc(m * n * sizeof *c);
  if (a == NULL || b == NULL || c == NULL) return 1;
  for (size_t i = 0; i < m * k; ++i) a[i] = Element(i);
  for (size_t i = 0; i < k * n; ++i) b[i] = Element(i + 12345);
  const Objects made = MakeObjects(again);
  const cl_command_queue queue = made.queue;

  const double begin = Now();
  cl_mem memory[3];
  const size_t bytes[3] = {m * k * sizeof *a, k * n * sizeof *b, m * n * sizeof *c};
  MakeBuffers(&made, bytes, n, k, memory);
  Check(clEnqueueWriteBuffer(queue, memory[0], CL_FALSE, 0, bytes[0], a, 0, NULL, NULL), "clEnqueueWriteBuffer");
  Check(clEnqueueWriteBuffer(queue, memory[1], CL_FALSE, 0, bytes[1], b, 0, NULL, NULL), "clEnqueueWriteBuffer");
  const size_t global[2] = {n, m}, local[2] = {16, 16};
  for (int round = 0; round < rounds; ++round) {
    const cl_kernel kernel = round + 1 < rounds ? made.repeated : made.kernel;
    Check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL), "clEnqueueNDRangeKernel");
  }
  Check(clEnqueueReadBuffer(queue, memory[2], CL_TRUE, 0, bytes[2], c, 0, NULL, NULL), "clEnqueueReadBuffer");
  const double took = Now() - begin;

  const size_t wrong = CountWrong(a, b, c, m, n, k);
  printf("%zu*%zu*%zu wrong %zu sum %016llx seconds %.3f\n", m, n, k, wrong, (unsigned long long)SumOf(c, bytes[2]),
         took);
  for (int i = 0; i < 3; ++i) clReleaseMemObject(memory[i]);
  Release(&made);
  return wrong == 0 ? 0 : 1;
}
