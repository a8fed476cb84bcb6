/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module: a shared object of this machine with one or more kernels, which Weir runs on a device on demand, beside
 * other runs in one context. This is version 1 of what a module exports and of what it is given; it is only added to.
 * Plain C, with nothing of Weir to link. Page: docs/modules.md
 *
 *   #include <weir/module.h>
 *   static int square(const weir_run* run) { ... return 0; }
 *   static const weir_kernel kernels[] = {{.size = sizeof(weir_kernel), .name = "square",
 *                                          .summary = "n=N: the squares of 1 to N", .execute = square}};
 *   WEIR_MODULE = {.abi = WEIR_MODULE_ABI, .size = sizeof(weir_module), .api = WEIR_API_OPENCL,
 *                  .kernel_size = sizeof(weir_kernel), .kernel_count = 1, .kernels = kernels};
 *
 *   cc -shared -fPIC square.c -o square.so -lOpenCL && weir module register square square.so
 */
#ifndef WEIR_MODULE_H
#define WEIR_MODULE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_MODULE_ABI 1u

/* What a module computes with. A node that serves another one refuses the module, in words. */
enum { WEIR_API_OPENCL = 1, WEIR_API_CUDA = 2 };

typedef struct weir_run weir_run;

/*
 * One run, as its kernel sees it. All of it is valid until execute returns, and for the thread that called execute and
 * those that it starts and ends. Many runs, also of one kernel, go on at the same time in one process: a module keeps
 * nothing in variables of its own that its runs write, and changes nothing of the process (signals, directory, locale).
 */
struct weir_run {
  uint32_t size; /* of this structure, in bytes; later versions are longer */
  uint32_t api;  /* WEIR_API_... */

  /* OpenCL: cl_context, cl_device_id, and a cl_command_queue in order, of this run alone, finished after it.
   * CUDA: CUcontext, CUdevice as a number, CUstream. None of them is the module's to release. */
  void* context;
  void* device;
  void* queue;

  const char* arguments; /* text for the kernel, ended by a zero; "" if none was given */
  const void* input;     /* NULL: none */
  uint64_t input_bytes;
  void* prepared; /* what prepare gave in this context */

  /* Memory of the host, which is freed when the run has ended. NULL: there is none. */
  void* (*allocate)(const weir_run* run, uint64_t bytes);
  /* Appends to the run's output, 64 MiB in all. 0, or nonzero: it is full, and the run will have failed. */
  int (*output)(const weir_run* run, const void* bytes, uint64_t count);
  /* Appends to the run's text for people, 4 KiB in all; the rest is dropped. */
  void (*say)(const weir_run* run, const char* text);
  /* Says why the run fails. Returns nonzero: `return run->fail(run, "...")`. */
  int (*fail)(const weir_run* run, const char* words);

  /*
   * Residual data: an object, such as a cl_mem, that stays in this context under a name, for later runs of the same
   * module by the same tenant; `bytes` is what it takes of the device. `release` is called with it when another one is
   * kept under its name, the module is gone or room is needed, and never while a run goes on that kept or found it. 0;
   * nonzero: it was not kept, and is still the caller's. Several runs may find one object at the same time: whoever
   * writes to it sees to it that nobody else does.
   */
  int (*keep)(const weir_run* run, const char* name, void* object, uint64_t bytes, void (*release)(void* object));
  /* What is kept under this name; NULL: nothing. */
  void* (*find)(const weir_run* run, const char* name);
  /* Releases what has not been found for longest until `bytes` are free; for when the device is short of memory.
   * How many bytes were. */
  uint64_t (*make_room)(const weir_run* run, uint64_t bytes);
};

/* What one run asks of its device on the mean while it runs alone; zeros: not known. */
typedef struct weir_need {
  uint64_t memory_bytes; /* of the device */
  uint64_t local_memory; /* KiB of local memory of all resident threads */
  uint64_t traffic;      /* MB/s of global memory traffic */
  uint64_t threads;      /* resident threads */
  uint64_t blocks;       /* resident blocks */
  double alone_s;        /* seconds that it takes */
} weir_need;

typedef struct weir_kernel {
  uint32_t size;       /* sizeof(weir_kernel) */
  const char* name;    /* 1 to 64 of A-Z a-z 0-9 . _ - */
  const char* summary; /* a line for people: what it does, and its arguments; at most 255 characters */
  /* 0: it went well. Anything else: the run has failed, with the words that were given to `fail`. */
  int (*execute)(const weir_run* run);
  weir_need need; /* where a run brings no measurements of its own */
} weir_kernel;

typedef struct weir_module {
  uint32_t abi;          /* WEIR_MODULE_ABI */
  uint32_t size;         /* sizeof(weir_module) */
  uint32_t api;          /* WEIR_API_... */
  uint32_t kernel_size;  /* sizeof(weir_kernel) */
  uint32_t kernel_count; /* 1 to 64 */
  const weir_kernel* kernels;
  /*
   * Both may be NULL. `prepare` is called once in a context, before the first run there, to build programs; `run` is
   * that first one. What it puts in *prepared each run of this module is given. 0, or nonzero, with `fail`'s words:
   * the run fails, and the next one tries again. `unprepare` is called when the module is gone and nothing of it runs.
   */
  int (*prepare)(const weir_run* run, void** prepared);
  void (*unprepare)(void* prepared);
} weir_module;

/* The one symbol that a module exports: a constant, read before anything of the module is called. */
#define WEIR_MODULE_SYMBOL "weir_module_v1"
#ifdef __cplusplus
#define WEIR_MODULE extern "C" __attribute__((visibility("default"))) const weir_module weir_module_v1
#else
#define WEIR_MODULE __attribute__((visibility("default"))) const weir_module weir_module_v1
#endif

#ifdef __cplusplus
}
#endif

#endif
