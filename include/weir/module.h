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

/* The API that a module computes with. A node without that API refuses the module with an explanation. */
enum { WEIR_API_OPENCL = 1, WEIR_API_CUDA = 2 };

typedef struct weir_run weir_run;

/*
 * One run, as its kernel sees it. All of it is valid until execute returns, for the thread that called execute and for
 * threads that the kernel starts and joins. Many runs, also of one kernel, execute at the same time in one process: a
 * module has no global variables that its runs write, and does not change the process (signals, directory, locale).
 */
struct weir_run {
  uint32_t size; /* sizeof(weir_run), in bytes; later versions are longer */
  uint32_t api;  /* WEIR_API_... */

  /* OpenCL: cl_context, cl_device_id, and an in-order cl_command_queue that only this run uses and that is finished
   * after it. CUDA: CUcontext, CUdevice as a number, CUstream. The module releases none of them. */
  void* context;
  void* device;
  void* queue;

  const char* arguments; /* text for the kernel, zero-terminated; "" if none was given */
  const void* input;     /* NULL: none */
  uint64_t input_bytes;
  void* prepared; /* the value that prepare stored in this context */

  /* Allocates host memory, which is freed at the end of the run. NULL: out of memory. */
  void* (*allocate)(const weir_run* run, uint64_t bytes);
  /* Appends to the run's output, 64 MiB in all. Returns 0; nonzero: the output is full, and the run fails. */
  int (*output)(const weir_run* run, const void* bytes, uint64_t count);
  /* Appends to the run's text for people, 4 KiB in all; the rest is discarded. */
  void (*say)(const weir_run* run, const char* text);
  /* Sets the reason of the run's failure. Returns nonzero: `return run->fail(run, "...")`. */
  int (*fail)(const weir_run* run, const char* words);

  /*
   * Residual data: an object, such as a cl_mem, that stays in this context under a name, for later runs of the same
   * module by the same tenant. `bytes` is the device memory that it occupies. `release` is called with the object when
   * another object is kept under the name, the module is removed, or the memory is needed; never while a run is in
   * progress that kept or found the object. Returns 0; nonzero: the object was not kept and still belongs to the
   * caller. Several runs may find one object at the same time; a run that writes to it must exclude the others.
   */
  int (*keep)(const weir_run* run, const char* name, void* object, uint64_t bytes, void (*release)(void* object));
  /* Returns the object that is kept under this name, or NULL. */
  void* (*find)(const weir_run* run, const char* name);
  /* Releases the objects that have not been found for longest, until `bytes` are free; for a kernel that lacks
   * device memory. Returns the number of released bytes. */
  uint64_t (*make_room)(const weir_run* run, uint64_t bytes);
};

/* The mean load of one run on its device while it runs alone; zeros: not known. */
typedef struct weir_need {
  uint64_t memory_bytes; /* of device memory */
  uint64_t local_memory; /* KiB of local memory of all resident threads */
  uint64_t traffic;      /* MB/s of global memory traffic */
  uint64_t threads;      /* resident threads */
  uint64_t blocks;       /* resident blocks */
  double alone_s;        /* duration in seconds */
} weir_need;

typedef struct weir_kernel {
  uint32_t size;       /* sizeof(weir_kernel) */
  const char* name;    /* 1 to 64 of A-Z a-z 0-9 . _ - */
  const char* summary; /* one line for people: what the kernel does, and its arguments; at most 255 characters */
  /* Returns 0 on success. Otherwise the run has failed, for the reason that was passed to `fail`. */
  int (*execute)(const weir_run* run);
  weir_need need; /* used for runs without measurements of their own */
} weir_kernel;

typedef struct weir_module {
  uint32_t abi;          /* WEIR_MODULE_ABI */
  uint32_t size;         /* sizeof(weir_module) */
  uint32_t api;          /* WEIR_API_... */
  uint32_t kernel_size;  /* sizeof(weir_kernel) */
  uint32_t kernel_count; /* 1 to 64 */
  const weir_kernel* kernels;
  /*
   * Both may be NULL. `prepare` is called once per context, before its first run (`run`), to build programs. Each run
   * of this module gets the value that it stores in *prepared. Returns 0; nonzero, after `fail`: the run fails, and the
   * next run tries again. `unprepare` is called when the module is removed and none of its runs is in progress.
   */
  int (*prepare)(const weir_run* run, void** prepared);
  void (*unprepare)(void* prepared);
} weir_module;

/* The only symbol that a module exports: a constant, which is read before any function of the module is called. */
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
