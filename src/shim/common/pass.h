/* SPDX-License-Identifier: Apache-2.0
 * What the stub and the Vulkan layer pass to the shim for one passage of the gate. In C, because the stub is C. */
#ifndef WEIR_SHIM_COMMON_PASS_H
#define WEIR_SHIM_COMMON_PASS_H

/* NOLINTBEGIN(readability-identifier-naming): names of a C interface */
/* Scratch space of one present, or of one call that may end a batch. */
typedef struct weir_shim_pass {
  unsigned long long words[12];
} weir_shim_pass;
/* NOLINTEND(readability-identifier-naming) */

#endif
