/* SPDX-License-Identifier: Apache-2.0
 * Between Weir's libcuda.so.1 (which a program loads in place of the driver) and the shim (libweir-shim.so, which that
 * library opens privately). Both are installed together, and the library checks the version. */
#ifndef WEIR_SHIM_CUDA_HOOKS_H
#define WEIR_SHIM_CUDA_HOOKS_H

#include "shim/common/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
#define WEIR_CUDA_HOOKS_VERSION 4u

/* The stream of a call. */
typedef struct weir_cuda_stream {
  const void* key; /* identifies the stream */
  const char* renderer;
  /* Waits until the device has completed the stream's batch before this one, for a limited time. `shares`: the device
   * is shared now, so that a long batch is awaited itself. */
  void (*await_last)(const void* key, int shares);
} weir_cuda_stream;

/* None of these functions throws or fails. */
typedef struct weir_cuda_hooks {
  unsigned version;
  /* Around a call that puts work on the device. before_work returns 1 if the call has passed the gate and ends a batch,
   * so that after_work will call await_last. */
  int (*before_work)(weir_shim_pass* pass, const weir_cuda_stream* stream);
  void (*after_work)(weir_shim_pass* pass);
  /* Measured spans of work: how many more have begun, how many more have a known GPU time, and the sum of these times.
   */
  void (*report_time)(unsigned made, unsigned known, long long gpu_ns);
  /* Whether what is reported now is charged: a daemon is there. */
  int (*charges)(void);
  /* Charges what was reported since the last passage. After a wait of the program, because no other call may follow. */
  void (*settle)(void);
  /* The program uses so many devices now. */
  void (*use_devices)(unsigned devices);
  /* Before an allocation. 0: the vGPU's limit has no room for it. */
  int (*claim_memory)(unsigned long long bytes);
  /* After memory was freed, or an allocation has failed. */
  void (*release_memory)(unsigned long long bytes);
  void (*used_memory)(weir_shim_memory* use);
} weir_cuda_hooks;

/* libweir-shim.so exports it. */
const weir_cuda_hooks* weir_cuda_shim_hooks(void);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
