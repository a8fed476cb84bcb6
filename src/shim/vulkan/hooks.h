/* SPDX-License-Identifier: Apache-2.0
 * Between the Vulkan layer (libweir-vulkan.so, which the loader inserts into a program's call chain) and the shim
 * (libweir-shim.so, which the layer opens privately). Both are installed together, and the layer checks the version. */
#ifndef WEIR_SHIM_VULKAN_HOOKS_H
#define WEIR_SHIM_VULKAN_HOOKS_H

#include "shim/common/pass.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
#define WEIR_VULKAN_HOOKS_VERSION 4u

/* The device of a call. */
typedef struct weir_vulkan_device {
  const void* key; /* identifies the device */
  const char* renderer;
  int is_cpu;
  int has_timestamps; /* the layer can measure each queue's submits */
} weir_vulkan_device;

/* Calls of a program that presents nothing. */
typedef enum weir_vulkan_work {
  WEIR_VULKAN_SUBMITS, /* work goes to the device */
  WEIR_VULKAN_WAITS,   /* the program waits for work that it has submitted */
} weir_vulkan_work;

/* What the meter in use needs from the layer. */
typedef enum weir_vulkan_need {
  WEIR_VULKAN_NEEDS_NOTHING,
  WEIR_VULKAN_NEEDS_TIME,  /* report_time */
  WEIR_VULKAN_NEEDS_WAITS, /* waits inside of passes, because it measures how long they take */
} weir_vulkan_need;

/* None of these functions throws or fails. */
typedef struct weir_vulkan_hooks {
  unsigned version;
  /* Around the driver's present, for each window. */
  void (*before_present)(weir_shim_pass* pass, unsigned long long window, const weir_vulkan_device* device);
  void (*after_present)(weir_shim_pass* pass);
  /* Around a submit or a wait. */
  void (*before_work)(weir_shim_pass* pass, weir_vulkan_work work, const weir_vulkan_device* device);
  void (*after_work)(weir_shim_pass* pass);
  /* Before an image of the window is acquired. `ahead`: the number of images that the program holds and has not
   * presented. Waits at most `most_ns` nanoseconds and returns how long it waited. */
  unsigned long long (*before_image)(unsigned long long window, int ahead, unsigned long long most_ns);
  void (*forget_window)(unsigned long long window);
  /* Submits with timestamps: how many more were made, how many more have a known GPU time, and the sum of these times.
   */
  void (*report_time)(unsigned made, unsigned known, long long gpu_ns);
  weir_vulkan_need (*need)(void);
  /* The program uses so many physical devices now. */
  void (*use_devices)(unsigned devices);
  /* Before an allocation. 0: the vGPU's limit has no room for it. */
  int (*claim_memory)(unsigned long long bytes);
  /* After memory was freed, or an allocation has failed. */
  void (*release_memory)(unsigned long long bytes);
  void (*used_memory)(weir_shim_memory* use);
} weir_vulkan_hooks;

/* libweir-shim.so exports it. */
const weir_vulkan_hooks* weir_vulkan_shim_hooks(void);
/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif
