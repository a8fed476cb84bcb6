/* SPDX-License-Identifier: Apache-2.0
 * A hostile compute program for tests: its kernel leaves the language. On a driver that computes on CPUs (PoCL on
 * x86-64), such a kernel is native code of the process that runs it. Does not use Weir's code.
 *
 *   opencl_escape CALL...     system calls, made by the kernel one after the other. A CALL is a number and up to three
 *                             arguments, separated by blanks: "2 /etc/shadow 0" opens a file. What is not a number is
 *                             passed as the address of the text, in which "%N" is the byte N, one digit. "last" is
 *                             the result of the call before
 *   opencl_escape scribble [ADDRESS BYTES VALUE]...
 *                             for each three words, the kernel fills these bytes of its process with the value, a
 *                             number of 64 bits, or with noise, if VALUE is "noise". Prints how many bytes it wrote
 *   opencl_escape hoard MIB   the kernel takes this much of the machine's memory, and prints its address
 *   opencl_escape swarm MOST  the kernel makes processes that wait for a signal, until it gets no more or has MOST of
 *                             them. Prints how many they are, and the errno that it got, or 0
 *
 * Prints the result of each call, a negative errno, on a line of its own. Exits with 2 when a call of OpenCL failed. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kText = 256 };

static const char* source =
    "kernel void escape(global long *result, global char *text, long n, long a, long b, long c, int text_at) {\n"
    "  if (text_at == 0) a = (long)text;\n"
    "  if (text_at == 1) b = (long)text;\n"
    "  if (text_at == 2) c = (long)text;\n"
    "  long r;\n"
    "  __asm__ volatile(\"syscall\" : \"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(c) : \"rcx\", \"r11\", "
    "\"memory\");\n"
    "  *result = r;\n"
    "}\n"
    /* mmap of anonymous memory; 0x8022: MAP_PRIVATE, MAP_ANONYMOUS and MAP_POPULATE */
    "kernel void hoard(global long *result, long bytes) {\n"
    "  long r;\n"
    "  __asm__ volatile(\"mov $0x8022, %%r10; mov $-1, %%r8; xor %%r9, %%r9; syscall\" : \"=a\"(r) : \"a\"(9L), "
    "\"D\"(0L), \"S\"(bytes), \"d\"(3L) : \"rcx\", \"r8\", \"r9\", \"r10\", \"r11\", \"memory\");\n"
    "  *result = r;\n"
    "}\n"
    "kernel void scribble(global long *result, long where, long bytes, ulong value, int noise) {\n"
    "  volatile global ulong *words = (volatile global ulong *)where;\n"
    "  for (long i = 0; i < bytes / 8; ++i) {\n"
    "    words[i] = value;\n"
    "    if (noise) value = value * 6364136223846793005UL + 1442695040888963407UL;\n"
    "  }\n"
    "  *result = bytes;\n"
    "}\n"
    /* clone, 56, with the flags CLONE_VM, CLONE_FS and CLONE_FILES: a process costs little. It calls pause, 34, and
     * touches no memory, because it has the stack of its parent. */
    "kernel void swarm(global long *result, long most) {\n"
    "  long made = 0, r = 0;\n"
    "  for (; made < most; ++made) {\n"
    "    __asm__ volatile(\"xor %%r10, %%r10; xor %%r8, %%r8; syscall; test %%rax, %%rax; jnz 2f; "
    "1: mov $34, %%eax; syscall; jmp 1b; 2:\" : \"=a\"(r) : \"a\"(56L), \"D\"(0x700L), \"S\"(0L), \"d\"(0L) "
    ": \"rcx\", \"r8\", \"r10\", \"r11\", \"memory\");\n"
    "    if (r < 0) break;\n"
    "  }\n"
    "  result[0] = made;\n"
    "  result[1] = r < 0 ? -r : 0;\n"
    "}\n";

static void check(cl_int error, const char* what) {
  if (error == CL_SUCCESS) return;
  fprintf(stderr, "opencl_escape: %s: error %d\n", what, error);
  exit(2);
}

static cl_command_queue queue;
static cl_mem result, text;

struct results {
  cl_long first, second;
};

static struct results run(cl_kernel kernel) {
  const size_t one = 1;
  struct results values = {0, 0};
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL), "clEnqueueNDRangeKernel");
  check(clEnqueueReadBuffer(queue, result, CL_TRUE, 0, sizeof values, &values, 0, NULL, NULL), "clEnqueueReadBuffer");
  return values;
}

static void set_number(cl_kernel kernel, cl_uint at, cl_long number) {
  check(clSetKernelArg(kernel, at, sizeof number, &number), "clSetKernelArg");
}

/* Copies `word`, and the bytes that it writes as "%N". */
static void read_text(char* bytes, const char* word) {
  for (size_t i = 0; i < kText - 1 && *word != '\0'; ++i, ++word) {
    const int is_byte = word[0] == '%' && word[1] >= '0' && word[1] <= '9';
    bytes[i] = is_byte ? (char)(*++word - '0') : *word;
  }
}

/* Makes the call in the kernel and prints its result. */
static void make_call(cl_kernel kernel, char* call) {
  static cl_long last;
  cl_long numbers[4] = {0};
  cl_int text_at = -1;
  int count = 0;
  for (char* word = strtok(call, " "); word != NULL && count < 4; word = strtok(NULL, " "), ++count) {
    char* end = word;
    numbers[count] = strtoll(word, &end, 0);
    if (*end == '\0') continue;
    if (strcmp(word, "last") == 0) {
      numbers[count] = last;
      continue;
    }
    text_at = count - 1;
    char bytes[kText] = {0};
    read_text(bytes, word);
    check(clEnqueueWriteBuffer(queue, text, CL_TRUE, 0, sizeof bytes, bytes, 0, NULL, NULL), "clEnqueueWriteBuffer");
  }
  check(clSetKernelArg(kernel, 1, sizeof text, &text), "clSetKernelArg");
  for (cl_uint i = 0; i < 4; ++i) set_number(kernel, 2 + i, numbers[i]);
  check(clSetKernelArg(kernel, 6, sizeof text_at, &text_at), "clSetKernelArg");
  last = run(kernel).first;
  printf("%lld\n", (long long)last);
}

/* Has the kernel fill a range of its process. */
static void scribble(cl_kernel kernel, char** words) {
  const cl_int noise = strcmp(words[2], "noise") == 0;
  const cl_ulong value = noise ? 1 : strtoull(words[2], NULL, 0);
  set_number(kernel, 1, (cl_long)strtoull(words[0], NULL, 0));
  set_number(kernel, 2, strtoll(words[1], NULL, 0));
  check(clSetKernelArg(kernel, 3, sizeof value, &value), "clSetKernelArg");
  check(clSetKernelArg(kernel, 4, sizeof noise, &noise), "clSetKernelArg");
  printf("%lld\n", (long long)run(kernel).first);
  fflush(stdout);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  cl_platform_id platform;
  cl_device_id device;
  cl_int error;
  check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  check(error, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &error);
  check(error, "clCreateCommandQueue");
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  check(error, "clCreateProgramWithSource");
  check(clBuildProgram(program, 1, &device, NULL, NULL, NULL), "clBuildProgram");
  result = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof(struct results), NULL, &error);
  check(error, "clCreateBuffer");
  text = clCreateBuffer(context, CL_MEM_READ_WRITE, kText, NULL, &error);
  check(error, "clCreateBuffer");
  const int scribbles = strcmp(argv[1], "scribble") == 0, hoards = argc == 3 && strcmp(argv[1], "hoard") == 0;
  const int swarms = argc == 3 && strcmp(argv[1], "swarm") == 0;
  cl_kernel kernel = clCreateKernel(program, scribbles || hoards || swarms ? argv[1] : "escape", &error);
  check(error, "clCreateKernel");
  check(clSetKernelArg(kernel, 0, sizeof result, &result), "clSetKernelArg");
  if (hoards || swarms) {
    const cl_long number = strtoll(argv[2], NULL, 10);
    set_number(kernel, 1, hoards ? number << 20 : number);
    const struct results got = run(kernel);
    printf("%lld", (long long)got.first);
    if (swarms) printf(" %lld", (long long)got.second);
    printf("\n");
    return 0;
  }
  for (int i = 2; scribbles && i + 2 < argc; i += 3) scribble(kernel, &argv[i]);
  for (int i = 1; !scribbles && i < argc; ++i) make_call(kernel, argv[i]);
  return 0;
}
