/* SPDX-License-Identifier: Apache-2.0
 * The kernels of cuda_loop for the emulated CUDA driver. Each adds 1 to n unsigned; they differ in their names only, so
 * that a device description can give them different costs. */
#include <stddef.h>

#define KERNEL(name)                                                                                             \
  __attribute__((visibility("default"))) extern const size_t name##_parameters[];                                \
  const size_t name##_parameters[] = {sizeof(unsigned*), sizeof(unsigned), 0};                                   \
  __attribute__((visibility("default"))) extern void name(const unsigned grid_block[6], const unsigned index[3], \
                                                          void** parameters);                                    \
  void name(const unsigned grid_block[6], const unsigned index[3], void** parameters) {                          \
    add_one(grid_block, index, parameters);                                                                      \
  }

/* A block of the grid. */
static void add_one(const unsigned grid_block[6], const unsigned index[3], void** parameters) {
  unsigned* values = *(unsigned**)parameters[0];
  const unsigned n = *(unsigned*)parameters[1];
  const size_t first = (size_t)index[0] * grid_block[3];
  for (size_t i = first; i < first + grid_block[3] && i < n; ++i) ++values[i];
}

KERNEL(tick)
KERNEL(short_tick)
KERNEL(long_tick)
