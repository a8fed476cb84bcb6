/* SPDX-License-Identifier: Apache-2.0
 * A compute program with all kinds of memory: images, buffers that forbid the host to read, to write or both, and a
 * buffer in a context whose queue it has released. It checks what it computed. Does not use Weir's code.
 *
 *   opencl_kinds SECONDS
 *
 * A frame turns one image into the other and takes a step of each number of a hidden buffer; of some frames the
 * results are read back, and of the last one, which a SIGTERM brings nearer. Prints frames and "wrong 0". Exits with 1
 * when a result was wrong, with 2 when a call failed. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kNumbers = 1 << 20, kWidth = 640, kHeight = 480, kChecks = 16 };

static const char* source =
    "kernel void begin(global const uint *in, global uint *hidden) {\n"
    "  hidden[get_global_id(0)] = in[get_global_id(0)];\n"
    "}\n"
    "kernel void take_step(global uint *hidden) {\n"
    "  size_t i = get_global_id(0);\n"
    "  hidden[i] = hidden[i] * 1664525u + 1013904223u;\n"
    "}\n"
    "kernel void show(global const uint *hidden, global uint *out) {\n"
    "  out[get_global_id(0)] = hidden[get_global_id(0)];\n"
    "}\n"
    "constant sampler_t as_is = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;\n"
    "kernel void turn(read_only image2d_t from, write_only image2d_t to) {\n"
    "  int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "  write_imageui(to, at, (read_imageui(from, as_is, at) + (uint4)(1, 2, 3, 4)) & 255);\n"
    "}\n";

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_kinds: %s: error %d\n", what, error);
  exit(2);
}

static double now(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static volatile sig_atomic_t asked_to_end;
static void on_signal(int number) {
  (void)number;
  asked_to_end = 1;
}

static cl_mem make_buffer(cl_context context, cl_mem_flags flags, void* content) {
  cl_int error;
  const cl_mem made = clCreateBuffer(context, flags | (content ? CL_MEM_COPY_HOST_PTR : 0), kNumbers * sizeof(cl_uint),
                                     content, &error);
  check(error, "clCreateBuffer");
  return made;
}

static cl_kernel make_kernel(cl_program program, const char* name, cl_mem first, cl_mem second) {
  cl_int error;
  const cl_kernel made = clCreateKernel(program, name, &error);
  check(error, name);
  check(clSetKernelArg(made, 0, sizeof first, &first), "clSetKernelArg");
  if (second) check(clSetKernelArg(made, 1, sizeof second, &second), "clSetKernelArg");
  return made;
}

static struct {
  cl_device_id device;
  cl_context context, apart;
  cl_command_queue queue;
  cl_mem in, hidden, out, kept, images[2];
  cl_kernel begin, take_step, show, turns[2];
} of;
static cl_uint *numbers, *seen;
static unsigned char *pixels, *seen_pixels;
static const size_t items = kNumbers, box[3] = {kWidth, kHeight, 1}, origin[3] = {0, 0, 0};

static void make_memory(void) {
  numbers = malloc(kNumbers * sizeof *numbers);
  seen = malloc(kNumbers * sizeof *seen);
  pixels = malloc(4 * kWidth * kHeight);
  seen_pixels = malloc(4 * kWidth * kHeight);
  for (cl_uint i = 0; i < kNumbers; ++i) numbers[i] = i * 2654435761u;
  for (size_t i = 0; i < 4 * kWidth * kHeight; ++i) pixels[i] = (unsigned char)(i * 7 / 3);
  of.in = make_buffer(of.context, CL_MEM_READ_ONLY | CL_MEM_HOST_WRITE_ONLY, NULL);
  of.hidden = make_buffer(of.context, CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS, NULL);
  of.out = make_buffer(of.context, CL_MEM_WRITE_ONLY | CL_MEM_HOST_READ_ONLY, NULL);
  of.kept = make_buffer(of.apart, CL_MEM_READ_WRITE, numbers);
  const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
  const cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = kWidth, .image_height = kHeight};
  for (int i = 0; i < 2; ++i) {
    cl_int error;
    of.images[i] = clCreateImage(of.context, CL_MEM_READ_WRITE | (i == 0 ? CL_MEM_COPY_HOST_PTR : 0), &format, &desc,
                                 i == 0 ? pixels : NULL, &error);
    check(error, "clCreateImage");
  }
}

static void make_objects(void) {
  cl_platform_id platform;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &of.device, NULL), "clGetDeviceIDs");
  of.context = clCreateContext(NULL, 1, &of.device, NULL, NULL, &error);
  check(error, "clCreateContext");
  of.apart = clCreateContext(NULL, 1, &of.device, NULL, NULL, &error);
  check(error, "clCreateContext");
  of.queue = clCreateCommandQueue(of.context, of.device, 0, &error);
  check(error, "clCreateCommandQueue");
  const cl_program program = clCreateProgramWithSource(of.context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &of.device, NULL, NULL, NULL), "clBuildProgram");
  make_memory();
  of.begin = make_kernel(program, "begin", of.in, of.hidden);
  of.take_step = make_kernel(program, "take_step", of.hidden, NULL);
  of.show = make_kernel(program, "show", of.hidden, of.out);
  of.turns[0] = make_kernel(program, "turn", of.images[0], of.images[1]);
  of.turns[1] = make_kernel(program, "turn", of.images[1], of.images[0]);
}

/* Reads the results of the frames so far, of whose steps `scale` and `offset` are the composition. */
static size_t count_wrong(unsigned long frames, cl_uint scale, cl_uint offset) {
  check(clEnqueueNDRangeKernel(of.queue, of.show, 1, NULL, &items, NULL, 0, NULL, NULL), "show");
  check(clEnqueueReadBuffer(of.queue, of.out, CL_TRUE, 0, kNumbers * sizeof *seen, seen, 0, NULL, NULL),
        "clEnqueueReadBuffer");
  check(clEnqueueReadImage(of.queue, of.images[frames % 2], CL_TRUE, origin, box, 0, 0, seen_pixels, 0, NULL, NULL),
        "clEnqueueReadImage");
  size_t wrong = 0;
  for (size_t i = 0; i < kNumbers; ++i) wrong += seen[i] != numbers[i] * scale + offset;
  for (size_t i = 0; i < 4 * kWidth * kHeight; ++i)
    wrong += seen_pixels[i] != (unsigned char)(pixels[i] + (i % 4 + 1) * frames);
  return wrong;
}

/* Reads the buffer of the context that has no queue. */
static size_t count_wrong_in_kept(void) {
  cl_int error;
  const cl_command_queue late = clCreateCommandQueue(of.apart, of.device, 0, &error);
  check(error, "clCreateCommandQueue");
  check(clEnqueueReadBuffer(late, of.kept, CL_TRUE, 0, kNumbers * sizeof *seen, seen, 0, NULL, NULL),
        "clEnqueueReadBuffer");
  size_t wrong = 0;
  for (size_t i = 0; i < kNumbers; ++i) wrong += seen[i] != numbers[i];
  return wrong;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const double seconds = atof(argv[1]);
  make_objects();
  check(clEnqueueWriteBuffer(of.queue, of.in, CL_TRUE, 0, kNumbers * sizeof *numbers, numbers, 0, NULL, NULL),
        "clEnqueueWriteBuffer");
  check(clEnqueueNDRangeKernel(of.queue, of.begin, 1, NULL, &items, NULL, 0, NULL, NULL), "begin");
  check(clEnqueueNDRangeKernel(of.queue, of.show, 1, NULL, &items, NULL, 0, NULL, NULL), "show");
  signal(SIGTERM, on_signal);
  printf("ready\n");
  fflush(stdout);

  size_t wrong = 0;
  unsigned long frames = 0;
  cl_uint scale = 1, offset = 0; /* the composition of all steps so far */
  const double start = now();
  while ((now() - start < seconds && !asked_to_end) || frames % kChecks != 0) {
    check(clEnqueueNDRangeKernel(of.queue, of.take_step, 1, NULL, &items, NULL, 0, NULL, NULL), "take_step");
    check(clEnqueueNDRangeKernel(of.queue, of.turns[frames % 2], 2, NULL, box, NULL, 0, NULL, NULL), "turn");
    check(clFinish(of.queue), "clFinish");
    ++frames;
    scale *= 1664525u;
    offset = offset * 1664525u + 1013904223u;
    if (frames % kChecks == 0) wrong += count_wrong(frames, scale, offset);
  }
  wrong += count_wrong_in_kept();
  printf("%lu frames, wrong %zu\n", frames, wrong);
  return wrong != 0;
}
