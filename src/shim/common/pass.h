/* SPDX-License-Identifier: Apache-2.0
 * What the stub, the Vulkan layer and the CUDA library pass to the shim. In C, because the stub is C. */
#ifndef WEIR_SHIM_COMMON_PASS_H
#define WEIR_SHIM_COMMON_PASS_H

/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
/* Scratch space of one present, or of one call that may end a batch. */
typedef struct weir_shim_pass {
  unsigned long long words[12];
} weir_shim_pass;

/* Device memory of the vGPU, in bytes. */
typedef struct weir_shim_memory {
  unsigned long long limit; /* 0: none */
  unsigned long long held;  /* by all of the vGPU */
} weir_shim_memory;
/* NOLINTEND(readability-identifier-naming) */

#endif
